package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/internal/refusal"
)

// completeCommands makes cobra's commands help and completion refuse a word that is no command, and adds the
// flag --json to help.
func completeCommands(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	made := map[string]*cobra.Command{}
	for _, cmd := range root.Commands() {
		made[cmd.Name()] = cmd
	}
	if completion := made["completion"]; completion != nil { // a named subcommand stands alone
		completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	help := made["help"]
	asJSON := help.Flags().Bool("json", false, "print the command's flags as one JSON object")
	show := help.Run
	help.Run = nil
	help.RunE = func(cmd *cobra.Command, args []string) error {
		named, rest, err := root.Find(args)
		switch {
		case err != nil:
			return refusal.Errorf("help %s: %w", strings.Join(args, " "), err)
		case len(rest) > 0 && named.HasAvailableSubCommands():
			return cli.UnknownName(named, "command", rest[0])
		case len(rest) > 0:
			return refusal.Errorf("help %s: %s has no commands of its own", strings.Join(args, " "),
				named.CommandPath())
		case *asJSON:
			return ui.PrintJSON(cmd.OutOrStdout(), flagsOf(named))
		}
		show(cmd, args)
		return nil
	}
}

// described is a command as programs read it: the JSON object of `weft help COMMAND --json`.
type described struct {
	Command string          `json:"command"`
	Usage   string          `json:"usage"`
	Flags   []describedFlag `json:"flags"`
}

// describedFlag is a flag. Kind is the word for its value in a help text.
type describedFlag struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	Default string   `json:"default"`
	Meaning string   `json:"meaning"`
	Choices []string `json:"choices,omitempty"`
	Group   string   `json:"group,omitempty"`
}

// flagsOf describes a command with all flags that a user may give.
func flagsOf(cmd *cobra.Command) described {
	d := described{Command: cmd.CommandPath(), Usage: cmd.UseLine(), Flags: []describedFlag{}}
	add := func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, meaning := pflag.UnquoteUsage(f)
		flag := describedFlag{
			Name: f.Name, Kind: cmp.Or(kind, f.Value.Type()), Default: f.DefValue,
			Meaning: meaning, Choices: f.Annotations[cli.FlagChoices],
		}
		if group := f.Annotations[cli.FlagGroup]; len(group) > 0 {
			flag.Group = group[0]
		}
		d.Flags = append(d.Flags, flag)
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return d
}

// useTemplates makes cobra's help texts list flags under the headings of their groups, and breaks their
// lines.
func useTemplates(root *cobra.Command) {
	cobra.AddTemplateFunc("flagGroups", flagGroups)
	cobra.AddTemplateFunc("filled", func(text string) string { return ui.Filled(text, terminalWidth()) })
	root.SetHelpTemplate(strings.ReplaceAll(root.HelpTemplate(), "trimTrailingWhitespaces", "filled"))
	before, rest, _ := strings.Cut(root.UsageTemplate(), "{{if .HasAvailableLocalFlags}}")
	_, after, _ := strings.Cut(rest, "{{if .HasHelpSubCommands}}")
	root.SetUsageTemplate(before + "{{flagGroups .}}{{if .HasHelpSubCommands}}" + after)
}

// flagGroups lists the flags of a command under their headings. It also tells how many others --help-all
// lists.
func flagGroups(cmd *cobra.Command) string {
	groups, headings, others := map[string]*pflag.FlagSet{}, []string{}, 0
	add := func(f *pflag.Flag) {
		if f.Hidden { // alone it would leave a heading without flags
			return
		}
		if left(cmd, f) {
			others++
			return
		}
		heading := append(f.Annotations[cli.FlagGroup], "Flags")[0]
		if groups[heading] == nil {
			groups[heading] = pflag.NewFlagSet("", pflag.ContinueOnError)
			groups[heading].SortFlags = false
			headings = append(headings, heading)
		}
		groups[heading].AddFlag(f)
	}
	inherited := cmd.InheritedFlags() // a set of its own, in the order of names unless told
	inherited.SortFlags = false
	cmd.LocalFlags().VisitAll(add)
	inherited.VisitAll(add)
	text := ""
	for _, heading := range headings {
		usages := groups[heading].FlagUsagesWrapped(terminalWidth())
		text += "\n\n" + heading + ":\n" + strings.TrimRight(usages, "\n")
	}
	if others > 0 {
		text += fmt.Sprintf("\n\n%s --%s lists %s more.", cmd.CommandPath(), cli.HelpAllFlag,
			ui.Counted(others, "flag", "flags"))
	}
	return text
}

// terminalWidth is the number of columns of a terminal, and 120 for other files.
func terminalWidth() int {
	if columns, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && columns > 40 {
		return columns
	}
	return 120
}

// basic are the flags that most users need, for commands that have --help-all.
var basic = strings.Fields(`task model layers hidden heads dropout normalize-features
	lr weight-decay epochs patience seed split init
	max-time device threads memory-limit precision parallel
	config out resume seeds json explain help
	vertices-from id label embeddings vertices workers at link per-machine`)

// left reports whether a help text leaves out a flag that few users need. With --help-all it leaves out none.
func left(cmd *cobra.Command, f *pflag.Flag) bool {
	all := cmd.Flags().Lookup(cli.HelpAllFlag)
	if all == nil || all.Value.String() == "true" || f.Changed {
		return false
	}
	return !slices.Contains(basic, f.Name)
}
