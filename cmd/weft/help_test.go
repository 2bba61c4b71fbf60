package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/internal/assert"
)

func TestFilled(t *testing.T) {
	const text = "train trains a model on a\nwhole graph.\n\nAn example:\n  weft train cora --epochs 100 " +
		"--hidden 16\nThe end."
	const want = "train trains a\nmodel on a whole\ngraph.\n\nAn example:\n  weft train cora --epochs 100 " +
		"--hidden 16\nThe end."
	assert.Equal(t, want, filled(text, 16))
}

func TestContinued(t *testing.T) {
	const text = "  weft train cora\n  weft train stores/mine --model gat --hidden 64 --json > " +
		"first.json\n  echo 'one two three four five six seven eight nine'"
	const want = "  weft train cora\n  weft train stores/mine \\\n      --model gat --hidden 64 \\\n      " +
		"--json > first.json\n  echo 'one two three four five six seven eight nine'"
	assert.Equal(t, want, continued(text, ` \`, 32))
}

// A subcommand that is named is the only one that is made, beside man.
func TestSubcommandsAreMadeAlone(t *testing.T) {
	for name := range subcommands {
		root, _ := newRoot(name, "man")
		var made []string
		for _, cmd := range root.Commands() {
			made = append(made, cmd.Name())
		}
		assert.Equal(t, slices.Sorted(slices.Values([]string{name, "man"})), made)
	}
	root, _ := newRoot("man", "train")
	assert.Len(t, root.Commands(), len(subcommands)+1)
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
		words := func(text string) []string { return strings.Fields(strings.ReplaceAll(text, "\\\n", "")) }
		assert.Equal(t, words(cmd.Example), words(text), cmd.Name())
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

// Each of the basic flags is one of a command that has --help-all, and train has 25 of them.
func TestBasicFlags(t *testing.T) {
	root, _ := newRoot()
	there, ofTrain := map[string]bool{}, 0
	for _, cmd := range root.Commands() {
		if cmd.Flags().Lookup(helpAllFlag) == nil {
			continue
		}
		cmd.InitDefaultHelpFlag()
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			there[f.Name] = true
			if cmd.Name() == "train" && slices.Contains(basic, f.Name) && f.Name != "help" {
				ofTrain++
			}
		})
	}
	for _, name := range basic {
		if !there[name] {
			t.Errorf("%s is no flag", name)
		}
	}
	assert.Equal(t, 29, ofTrain, "train")
}
