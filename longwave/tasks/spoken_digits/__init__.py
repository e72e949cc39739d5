"""The Free Spoken Digit Dataset."""
