"""From a name in one file to the definition that it means: modules, definitions, installed packages."""
