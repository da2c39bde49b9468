import grimp


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = grimp.build_graph("hermes_lab", exclude_type_checking_imports=True)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 500
    while leaves := [module for module, imported in imports.items() if not imported & imports.keys()]:
        for module in leaves:
            del imports[module]
    assert sorted(imports) == []
