package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"weft/train/setting"
)

func TestFilled(t *testing.T) {
	const text = "train trains a model on a\nwhole graph.\n\nAn example:\n  weft train cora --epochs 100 --hidden 16\nThe end."
	const want = "train trains a\nmodel on a whole\ngraph.\n\nAn example:\n  weft train cora --epochs 100 --hidden 16\nThe end."
	if got := filled(text, 16); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// The lists of commands keep to the width of a terminal.
func TestCommandsAreFilled(t *testing.T) {
	const width = 60
	root, _ := newRoot()
	for _, cmd := range append(root.Commands(), root) {
		var out bytes.Buffer
		printCommands(&out, cmd, width)
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%s: %d columns: %s", cmd.Name(), n, line)
			}
		}
	}
}

// Each of the expert settings is one.
func TestExpert(t *testing.T) {
	var names []string
	for _, s := range setting.All() {
		names = append(names, s.Name)
	}
	for _, name := range expert {
		if !slices.Contains(names, name) {
			t.Errorf("%s is no setting", name)
		}
	}
}
