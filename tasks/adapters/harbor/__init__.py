"""Harbor task folders (Terminal-Bench, SkillsBench and others) as a suite. They are read; harbor is not imported."""
