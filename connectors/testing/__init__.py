"""What every sink must do, as tests that ship with the framework: a new sink lists itself and is held to them."""
