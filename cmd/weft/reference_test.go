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

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/setting"
)

var update = flag.Bool("update", false, "write docs/flags.md anew")

// docs/flags.md has, below its opening, the flags of the commands and of the table of settings.
func TestReference(t *testing.T) {
	const file = "../../docs/flags.md"
	const mark = "<!-- All below is written by go test ./cmd/weft -run Reference -update -->\n\n"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	opening, is, marked := strings.Cut(string(text), mark)
	if !marked {
		t.Fatalf("%s lacks the mark %q", file, mark)
	}
	root, _ := newRoot()
	var flags strings.Builder
	writeFlags(&flags, root)
	want := strings.TrimSuffix(flags.String(), "\n")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(opening+mark+want), 0o666))
		return
	}
	assert.Equal(t, want, is, "%s is out of date (go test ./cmd/weft -run Reference -update writes it)", file)
}

// docs/formats.md or docs/tables.md names each flag of import, and of each of its formats.
func TestImportFlags(t *testing.T) {
	formats, err := os.ReadFile("../../docs/formats.md")
	require.NoError(t, err)
	tables, err := os.ReadFile("../../docs/tables.md")
	require.NoError(t, err)
	root, _ := newRoot()
	importing, _, err := root.Find([]string{"import"})
	require.NoError(t, err)
	for _, cmd := range append(importing.Commands(), importing) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(string(formats)+string(tables), "--"+f.Name) {
				t.Errorf("docs/formats.md and docs/tables.md lack --%s of %s", f.Name, cmd.CommandPath())
			}
		})
	}
}

// section is the list of flags of some commands, under their usage lines.
type section struct {
	usage string
	list  string
}

// writeFlags writes a list for each command that has flags. Commands with the same flags have one list.
func writeFlags(out *strings.Builder, root *cobra.Command) {
	var all []section
	for _, s := range sections(root, "") {
		if k := slices.IndexFunc(all, func(other section) bool { return other.list == s.list }); k >= 0 {
			all[k].usage += ", " + s.usage
		} else if s.list != "" {
			all = append(all, s)
		}
	}
	for _, s := range all {
		fmt.Fprintf(out, "## %s\n\n%s", s.usage, s.list)
	}
}

// sections returns the list of a command, without what the list of the command above it has, and those of the
// commands below it. That of train has a part for each group of settings; predict takes these too. Of flags
// that train has, too, the other lists have the names.
func sections(cmd *cobra.Command, above string) (all []section) {
	train, _, _ := cmd.Root().Find([]string{"train"})
	var own []*pflag.Flag
	var shared []string
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		trainFlag := train.Flags().Lookup(f.Name)
		if _, setting := f.Value.(*cli.SettingValue); setting || f.Hidden || f.Name == "version" ||
			f.Name == "config" || strings.Contains(above, entry(f)) {
			return
		}
		if cmd != train && trainFlag != nil && entry(f) == entry(trainFlag) {
			shared = append(shared, "`--"+f.Name+"`")
		} else {
			own = append(own, f)
		}
	})
	var list strings.Builder
	if cmd == train {
		own = slices.Insert(own, 0, cmd.Flags().Lookup("config"))
		settings := setting.All()
		var group []*pflag.Flag
		for k, s := range settings {
			group = append(group, cmd.Flags().Lookup(s.Name))
			if k == len(settings)-1 || settings[k+1].Group != s.Group {
				fmt.Fprintf(&list, "%s:\n\n", group[0].Annotations[cli.FlagGroup][0])
				writeList(&list, group)
				group = nil
			}
		}
		fmt.Fprint(&list, "Other flags:\n\n")
	}
	writeList(&list, own, shared...)
	usage := strings.TrimPrefix(strings.TrimSuffix(cmd.UseLine(), " [flags]"), "weft ")
	all = append(all, section{"`weft " + usage + "`", list.String()})
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, sections(c, list.String())...)
		}
	}
	return all
}

// writeList writes the entries of flags, and the names of those that train has, if there are any.
func writeList(out *strings.Builder, flags []*pflag.Flag, shared ...string) {
	for _, f := range flags {
		fmt.Fprint(out, entry(f))
	}
	if len(shared) > 0 {
		line := ui.Filled("- as in train: "+strings.Join(shared, ", "), 108)
		fmt.Fprintln(out, strings.ReplaceAll(line, "\n", "\n  "))
	}
	if len(flags)+len(shared) > 0 {
		fmt.Fprintln(out)
	}
}

// entry is a flag's line: its name, its default in parentheses where it has one, and its meaning.
func entry(f *pflag.Flag) string {
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
	line := "- " + strings.TrimSpace("`"+short+"--"+f.Name) + strings.TrimRight(" "+name, " ") + "`" +
		initial + ": " + meaning
	return strings.ReplaceAll(ui.Filled(line, 108), "\n", "\n  ") + "\n"
}
