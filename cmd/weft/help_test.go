package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"weft/train/setting"
)

func TestFilled(t *testing.T) {
	const text = "train trains a model on a\nwhole graph.\n\nAn example:\n  weft train cora --epochs 100 --hidden 16\nThe end."
	const want = "train trains a\nmodel on a whole\ngraph.\n\nAn example:\n  weft train cora --epochs 100 --hidden 16\nThe end."
	if got := filled(text, 16); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestContinued(t *testing.T) {
	const text = "  weft train cora\n  weft train stores/mine --model gat --hidden 64 --json > first.json\n  echo 'one two three four five six seven eight nine'"
	const want = "  weft train cora\n  weft train stores/mine \\\n      --model gat --hidden 64 \\\n      --json > first.json\n" +
		"  echo 'one two three four five six seven eight nine'"
	if got := continued(text, ` \`, 32); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// The examples of all commands keep to the width of a narrow terminal, and say the same to a shell.
func TestExamplesAreContinued(t *testing.T) {
	const width = 60
	root, _ := newRoot()
	for all := []*cobra.Command{root}; len(all) > 0; {
		cmd := all[0]
		all = append(all[1:], cmd.Commands()...)
		text := continued(cmd.Example, ` \`, width)
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%s: %d columns: %s", cmd.Name(), n, line)
			}
		}
		if got := strings.Fields(strings.ReplaceAll(text, "\\\n", "")); !slices.Equal(got, strings.Fields(cmd.Example)) {
			t.Errorf("%s: %q", cmd.Name(), got)
		}
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
