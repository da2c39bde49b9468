"""Core injection patterns in languages other than English: ignore your rules, reveal your prompt, act without rules, do
not tell the user, send the secrets."""

from itertools import chain
from typing import NamedTuple


def words(*parts: str | int, between: str = r"\W") -> str:
    """A regular expression for the parts in order, with a limited number of other words between them, separated by
    `between` characters."""
    gap = between + "{1,6}"
    return "".join(rf"(?:{gap}\w{{1,24}}){{0,{part}}}?{gap}" if isinstance(part, int) else part for part in parts)


def _near(*parts: str | int) -> str:
    """As `words`, for scripts without spaces: a limited number of characters between the parts."""
    return "".join(f"[^。！？\n]{{0,{part}}}?" if isinstance(part, int) else part for part in parts)


class _Language(NamedTuple):
    """Alternatives for each element of an injection."""

    drop: str
    earlier: str
    rules: str
    show: str
    prompt: str
    without_rules: str
    do_not_tell: str
    send: str
    secrets: str


_SPACED = (
    _Language(  # German
        drop=r"ignorier(?:e|en sie|t)?|vergiss|missachte|vergessen sie|überschreibe|umgehe|(?:folge|befolge) nicht",
        earlier=r"vorherigen?|bisherigen?|vorigen?|früheren?|obigen?|ursprünglichen?|vorher|zuvor|bisher|deine[nr]?|"
        r"vorangegangenen?|systemprompt",
        rules=r"anweisung(?:en)?|regeln?|vorgaben?|befehle?|richtlinien?|instruktionen|gesagt|systemprompt",
        show=r"zeige?|gib|nenne|verrate?|wiederhole?|schreibe?|drucke|übersetze",
        prompt=r"system-?prompts?|systemnachricht|(?:ursprünglichen?|geheimen?|versteckten?|internen?) "
        r"(?:anweisungen|regeln)",
        without_rules=r"ohne (?:\w{1,12} )?(?:regeln|einschränkungen|filter|grenzen)",
        do_not_tell=r"(?:sag|sage|verrate|erzähle?|melde) (?:es )?(?:dem|der) (?:nutzer|benutzer|anwender)(?:in)? "
        r"(?:nichts|nicht)",
        send=r"sende|schicke|übertrage|lade",
        secrets=r"zugangsdaten|passwörter|schlüssel|geheimnisse|tokens?",
    ),
    _Language(  # French
        drop=r"ignorez?|oubliez?|ne (?:tiens|tenez) (?:pas|aucun) compte|ne (?:suis|suivez) (?:pas|plus)|contourne",
        earlier=r"précédentes?|antérieures?|ci-dessus|précède|initiales?|avant|tes|vos|système|reçues",
        rules=r"instructions?|consignes?|règles?|directives?|ordres|précède",
        show=r"affichez?|montrez?|révèlez?|révélez|donnez?|répètez?|répétez|écris|traduis",
        prompt=r"(?:prompt|message|invite) (?:du )?système|instructions (?:cachées|secrètes|initiales|système)",
        without_rules=r"(?:sans|plus|n'as) aucune? (?:\w{1,12} )?(?:restrictions?|règles?|limites?|filtres?)",
        do_not_tell=r"(?:n'en parle|ne (?:le )?dis rien|ne (?:le )?dis) (?:pas )?à l'utilisateur",
        send=r"envoie|envoyez|transmets|téléverse",
        secrets=r"mots de passe|clés|identifiants|secrets|jetons",
    ),
    _Language(  # Spanish
        drop=r"ignora|olvida|omite|descarta|no (?:sigas|obedezcas|hagas caso a)|haz caso omiso de",
        earlier=r"anterior(?:es)?|previas?|previos|antes|iniciales|de arriba|tus|del sistema|dijeron",
        rules=r"instrucciones|reglas|órdenes|indicaciones|directrices|normas|dijeron|sistema|antes",
        show=r"muestra|muéstrame|revela|imprime|repite|escribe|dime|traduce",
        prompt=r"(?:mensaje|prompt|indicaciones) (?:de|del) sistema|"
        r"instrucciones (?:secretas|ocultas|iniciales|del sistema)",
        without_rules=r"sin (?:\w{1,12} )?(?:restricciones|reglas|límites|filtros)",
        do_not_tell=r"no (?:se )?(?:lo )?(?:digas|menciones|informes)(?: nada)? (?:de esto )?al usuario",
        send=r"envía|manda|sube|transmite",
        secrets=r"contraseñas|claves|credenciales|secretos|tokens",
    ),
    _Language(  # Italian
        drop=r"ignora|dimentica|non seguire|tralascia",
        earlier=r"precedent[ei]|anterior[ei]|prima|inizial[ei]|tue|del sistema",
        rules=r"istruzion[ei]|regol[ae]|ordini|direttive|indicazioni",
        show=r"mostra|rivela|stampa|ripeti|scrivi",
        prompt=r"prompt (?:di|del) sistema|messaggio di sistema|istruzioni (?:nascoste|segrete|iniziali)",
        without_rules=r"senza (?:\w{1,12} )?(?:restrizioni|regole|limiti|filtri)",
        do_not_tell=r"non (?:lo )?(?:dire|dirlo)(?: nulla)? all'utente",
        send=r"invia|manda|carica",
        secrets=r"password|chiavi|credenziali|segreti",
    ),
    _Language(  # Portuguese
        drop=r"ignore|ignora|esqueça|desconsidere|não siga",
        earlier=r"anterior(?:es)?|prévias?|antes|iniciais|acima|suas|do sistema",
        rules=r"instruções|regras|ordens|diretrizes|orientações",
        show=r"mostre|revele|imprima|repita|escreva",
        prompt=r"prompt (?:do|de) sistema|mensagem (?:do|de) sistema|instruções (?:ocultas|secretas|iniciais)",
        without_rules=r"sem (?:\w{1,12} )?(?:restrições|regras|limites|filtros)",
        do_not_tell=r"não (?:conte|diga|informe)(?: nada)?(?: isso)? ao usuário",
        send=r"envie|mande|carregue",
        secrets=r"senhas|chaves|credenciais|segredos",
    ),
    _Language(  # Russian
        drop=r"игнорируй(?:те)?|забудь(?:те)?|проигнорируй(?:те)?|отбрось(?:те)?|не (?:следуй|слушай|выполняй)(?:те)?",
        earlier=r"предыдущи[ехм]|прежни[ехм]|прошлы[ехм]|раньше|ранее|выше|исходны[ехм]|свои|твои",
        rules=r"инструкци[ияйю]|правил[ао]?|указани[яей]|команды|приказы|промпт|раньше|ранее",
        show=r"покажи(?:те)?|выведи(?:те)?|раскрой(?:те)?|повтори(?:те)?|напиши(?:те)?|переведи",
        prompt=r"системн\w{1,4} (?:промпт|сообщени[ея]|инструкци[ию]|запрос)|(?:скрыты|секретны|исходны)е инструкции",
        without_rules=r"без (?:\w{1,12} )?(?:ограничений|правил|фильтров|цензуры)",
        do_not_tell=r"не (?:говори|сообщай|рассказывай)(?:те)? (?:об этом )?пользователю",
        send=r"отправь(?:те)?|перешли|загрузи|вышли",
        secrets=r"пароли|ключи|токены|секреты|учётные данные",
    ),
)
_UNSPACED = (
    _Language(  # Chinese
        drop="忽略|无视|忘记|忘掉|不要遵守|不要理会|忽視|無視",
        earlier="之前|以前|先前|上述|以上|前面|此前|所有|全部",
        rules="指令|指示|规则|提示|命令|要求|規則|设定",
        show="输出|显示|告诉我|泄露|打印|重复|翻译|展示",
        prompt="系统提示|系统指令|系统消息|初始指令|隐藏指令",
        without_rules="(?:没有|不受)(?:任何)?(?:限制|约束|规则|过滤)",
        do_not_tell="(?:不要|别|不能)(?:告诉|通知|让)(?:用户|使用者)",
        send="发送|上传|发到|转发",
        secrets="密钥|密码|凭证|令牌|口令",
    ),
    _Language(  # Japanese
        drop="無視|忘れて|破棄",
        earlier="これまで|以前|上記|前の|すべて|全て",
        rules="指示|命令|ルール|プロンプト|規則",
        show="表示|出力|教えて|見せて|公開",
        prompt="システムプロンプト|システムメッセージ|初期指示",
        without_rules="(?:制限|ルール|フィルター)の?(?:ない|なし)",
        do_not_tell="ユーザーに(?:は)?(?:言わない|知らせない|伝えない)",
        send="送信|送って|アップロード",
        secrets="パスワード|秘密鍵|トークン|認証情報",
    ),
    _Language(  # Korean
        drop="무시|잊어|잊고",
        earlier="이전|위의|앞의|기존|모든",
        rules="지시|명령|규칙|프롬프트|지침",
        show="출력|보여|알려|공개",
        prompt="시스템 ?프롬프트|시스템 ?메시지|초기 ?지시",
        without_rules="(?:제한|규칙)(?:이|은)? ?없는",
        do_not_tell="사용자에게 ?(?:말하지|알리지)",
        send="전송|보내",
        secrets="비밀번호|토큰|열쇠|자격 ?증명",
    ),
)


def _spaced(of: _Language) -> tuple[str, ...]:
    return (
        words(rf"\b(?:{of.drop})\b", 5, rf"(?:{of.earlier})\b", 3, rf"(?:{of.rules})\b"),
        words(rf"\b(?:{of.drop})\b", 3, rf"(?:{of.rules})\b", 6, rf"(?:{of.earlier})\b"),
        words(rf"\b(?:{of.drop})\b", 1, rf"(?:{of.rules})\b") + r"\s{0,2}[.!;]",
        words(rf"\b(?:{of.show})\b", 3, rf"(?:{of.prompt})\b"),
        words(r"\b(?:assistente?|asistente|ia|ki|bot|ассистент|бот|modell?)\b", 4, rf"(?:{of.without_rules})\b"),
        rf"\b(?:{of.do_not_tell})\b",
        words(rf"\b(?:{of.send})\b", 3, rf"(?:{of.secrets})\b"),
    )


def _unspaced(of: _Language) -> tuple[str, ...]:
    """Word order differs: the verb precedes its object in Chinese and follows it in Japanese and Korean."""
    return (
        _near(f"(?:{of.drop})", 8, f"(?:{of.earlier})", 8, f"(?:{of.rules})"),
        _near(f"(?:{of.earlier})", 8, f"(?:{of.rules})", 8, f"(?:{of.drop})"),
        _near(f"(?:{of.show})", 8, f"(?:{of.prompt})"),
        _near(f"(?:{of.prompt})", 8, f"(?:{of.show})"),
        of.without_rules + ".{0,6}(?:助手|ai|模型|アシスタント|모델|도우미)",
        of.do_not_tell,
        _near(f"(?:{of.send})", 8, f"(?:{of.secrets})"),
        _near(f"(?:{of.secrets})", 8, f"(?:{of.send})"),
    )


PATTERNS = tuple(chain(*map(_spaced, _SPACED), *map(_unspaced, _UNSPACED)))
