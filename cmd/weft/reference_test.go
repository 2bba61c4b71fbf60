package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/setting"
)

var update = flag.Bool("update", false, "write the flags of docs/reference.md anew")

// The flags in docs/reference.md are those of the commands and of the table of settings, between two marks.
func TestReference(t *testing.T) {
	const file = "../../docs/reference.md"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, begun := strings.Cut(string(text), "<!-- BEGIN: flags, by go test ./cmd/weft -run "+
		"Reference -update -->\n")
	is, after, ended := strings.Cut(rest, "<!-- END: flags -->\n")
	if !begun || !ended {
		t.Fatalf("%s lacks the marks of the flags", file)
	}
	root, _ := newRoot()
	var want strings.Builder
	writeFlags(&want, root)
	if !*update {
		assert.Equal(t, want.String(), is,
			"%s is out of date (go test ./cmd/weft -run Reference -update writes it)", file)
		return
	}
	whole := strings.TrimSuffix(string(text), rest) + want.String() + strings.TrimPrefix(rest, is)
	if !strings.HasPrefix(whole, before) || !strings.HasSuffix(whole, after) {
		t.Fatal("more than the flags would change")
	}
	require.NoError(t, os.WriteFile(file, []byte(whole), 0o666))
}

// writeFlags writes a list for each command that has flags, and for train one for each group of settings.
// predict takes these too.
func writeFlags(out *strings.Builder, cmd *cobra.Command) {
	var own []*pflag.Flag
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, setting := f.Value.(*settingValue); !setting && !f.Hidden && f.Name != "version" &&
			f.Name != "config" {
			own = append(own, f)
		}
	})
	isTrain := cmd.CommandPath() == "weft train"
	if len(own) > 0 || isTrain {
		fmt.Fprintf(out, "### `weft %s`\n\n",
			strings.TrimPrefix(strings.TrimSuffix(cmd.UseLine(), " [flags]"), "weft "))
	}
	if isTrain {
		own = slices.Insert(own, 0, cmd.Flags().Lookup("config"))
		settings := setting.All()
		var group []*pflag.Flag
		for k, s := range settings {
			group = append(group, cmd.Flags().Lookup(s.Name))
			if k == len(settings)-1 || settings[k+1].Group != s.Group {
				fmt.Fprintf(out, "%s:\n\n", headings[s.Group])
				writeList(out, group)
				group = nil
			}
		}
		fmt.Fprint(out, "Other flags:\n\n")
	}
	if len(own) > 0 {
		writeList(out, own)
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			writeFlags(out, c)
		}
	}
}

// writeList writes an entry for each flag: its name, its default in parentheses where it has one, and its
// meaning.
func writeList(out *strings.Builder, flags []*pflag.Flag) {
	for _, f := range flags {
		name, meaning := pflag.UnquoteUsage(f)
		short, initial := "", f.DefValue
		if _, list := f.Value.(pflag.SliceValue); list {
			initial = strings.Trim(initial, "[]")
		}
		if f.Shorthand != "" {
			short = "-" + f.Shorthand + ", "
		}
		if f.Value.Type() == "bool" {
			initial = map[string]string{"false": "", "true": "on"}[initial]
		}
		if initial != "" {
			initial = " (" + initial + ")"
		}
		entry := "- " + strings.TrimSpace("`"+short+"--"+f.Name) + strings.TrimRight(" "+name, " ") + "`" +
			initial + ": " + meaning
		fmt.Fprintln(out, strings.ReplaceAll(filled(entry, 108), "\n", "\n  "))
	}
	fmt.Fprintln(out)
}
