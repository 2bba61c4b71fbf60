package main

import "testing"

func TestSpread(t *testing.T) {
	if got, want := spread("rmse", 123.456, 1.23), "123.5 ± 1.2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
