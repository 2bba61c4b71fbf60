package main

import (
	"regexp"
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/cli"
	"weft/internal/assert"
)

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

// Each of the basic flags is one of a command that has --help-all, and train has 25 of them.
func TestBasicFlags(t *testing.T) {
	root, _ := newRoot()
	there, ofTrain := map[string]bool{}, 0
	for _, cmd := range root.Commands() {
		if cmd.Flags().Lookup(cli.HelpAllFlag) == nil {
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
	assert.Equal(t, 30, ofTrain, "train")
}

// TestHeadingsHaveFlags: no help text has a heading without a flag below it, as one whose flags are all
// hidden would be.
func TestHeadingsHaveFlags(t *testing.T) {
	empty := regexp.MustCompile(`\n[^\n]+:\n(\n|$)`)
	var each func(*cobra.Command)
	each = func(cmd *cobra.Command) {
		if text := flagGroups(cmd) + "\n"; empty.MatchString(text) {
			t.Errorf("%s: a heading has no flags: %q", cmd.CommandPath(), empty.FindString(text))
		}
		for _, subcommand := range cmd.Commands() {
			each(subcommand)
		}
	}
	root, _ := newRoot()
	each(root)
}
