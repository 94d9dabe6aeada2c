"""How a stage is found, fed and recorded; the stages themselves are packages beside this one."""
