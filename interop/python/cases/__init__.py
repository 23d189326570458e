"""The cases: every public function is one."""
