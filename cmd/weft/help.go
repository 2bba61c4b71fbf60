package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/internal/refusal"
	"weft/train/setting"
)

// newHelp is "weft help", which refuses what is no command.
func newHelp() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "print the help text of a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []cobra.Completion,
			_ cobra.ShellCompDirective,
		) {
			if named, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, c := range named.Commands() {
					if c.IsAvailableCommand() {
						names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			named, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return refusal.Errorf("help %s: %w", strings.Join(args, " "), err)
			case len(rest) > 0 && named.HasAvailableSubCommands():
				return unknownName(named, "command", rest[0])
			case len(rest) == 1 && printTopic(cmd.OutOrStdout(), named, rest[0]):
				return nil
			case len(rest) > 0:
				return refusal.Errorf("help %s: %s has no commands of its own", strings.Join(args, " "),
					named.CommandPath())
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), flagsOf(named))
			}
			named.InitDefaultHelpFlag()
			named.InitDefaultVersionFlag()
			return named.Help()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the command's flags as one JSON object")
	return cmd
}

// described is a command for programs: the JSON object of `weft help COMMAND --json`.
type described struct {
	Command string          `json:"command"`
	Usage   string          `json:"usage"`
	Flags   []describedFlag `json:"flags"`
}

// describedFlag is a flag. Kind is the word for its value, as a help text has it.
type describedFlag struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	Default string   `json:"default"`
	Meaning string   `json:"meaning"`
	Choices []string `json:"choices,omitempty"`
	Group   string   `json:"group,omitempty"`
}

// flagsOf describes a command with all its flags that a user may give.
func flagsOf(cmd *cobra.Command) described {
	d := described{Command: cmd.CommandPath(), Usage: cmd.UseLine(), Flags: []describedFlag{}}
	add := func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, meaning := pflag.UnquoteUsage(f)
		one := describedFlag{
			Name: f.Name, Kind: cmp.Or(kind, f.Value.Type()), Default: f.DefValue,
			Meaning: meaning, Choices: f.Annotations[flagChoices],
		}
		if group := f.Annotations[flagGroup]; len(group) > 0 {
			one.Group = group[0]
		}
		d.Flags = append(d.Flags, one)
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return d
}

// help prints what a command does, in lines of the terminal's width, and how it is called. With a topic
// behind --help it prints the flags of that.
func help(cmd *cobra.Command, args []string) {
	out := cmd.OutOrStdout()
	if at := slices.IndexFunc(args, func(arg string) bool {
		return arg == "--help" || arg == "-h"
	}); at >= 0 {
		if rest := args[at+1:]; len(rest) > 0 && printTopic(out, cmd, rest[0]) {
			return
		}
	}
	fmt.Fprintf(out, "%s\n\n%s", filled(cmp.Or(cmd.Long, cmd.Short), terminalWidth(os.Stdout)),
		cmd.UsageString())
}

// filled breaks the lines of paragraphs anew, at most so wide. Lines that begin with a blank stay.
func filled(text string, width int) string {
	var lines []string
	line := ""
	end := func() {
		if line != "" {
			lines, line = append(lines, line), ""
		}
	}
	for _, old := range strings.Split(text, "\n") {
		if old == "" || old[0] == ' ' {
			end()
			lines = append(lines, old)
			continue
		}
		for _, word := range strings.Fields(old) {
			if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
				end()
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
	}
	end()
	return strings.Join(lines, "\n")
}

// continued breaks the lines of commands, at most so wide, so that each line but the last ends as the shell
// needs it and the next ones are indented further. A flag stays with its value, a comment and what is in
// quotes on one line. A single word that is wider stays.
func continued(text, end string, width int) string {
	var lines []string
	for _, old := range strings.Split(text, "\n") {
		if utf8.RuneCountInString(old) <= width || strings.ContainsAny(old, `'"#`) {
			lines = append(lines, old)
			continue
		}
		indent := old[:len(old)-len(strings.TrimLeft(old, " "))]
		line := ""
		for _, part := range flagsWithValues(strings.Fields(old)) {
			switch {
			case line == "":
				line = indent + part
			case utf8.RuneCountInString(line+" "+part+end) > width:
				lines = append(lines, line+end)
				line = indent + "    " + part
			default:
				line += " " + part
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// flagsWithValues joins each flag with the word behind it that is none.
func flagsWithValues(words []string) (parts []string) {
	for i, word := range words {
		if i > 0 && strings.HasPrefix(words[i-1], "--") && !strings.HasPrefix(word, "-") {
			parts[len(parts)-1] += " " + word
		} else {
			parts = append(parts, word)
		}
	}
	return parts
}

// basic are the flags that most need, of commands that have --help-all. Their other flags are listed by
// topic.
var basic = strings.Fields(`task model layers hidden heads dropout normalize-features
	lr weight-decay epochs patience seed split init
	max-time threads memory-limit precision parallel
	config out resume seeds json explain help
	vertices-from id label embeddings vertices workers at link per-machine`)

// flagsHeading is that of flags without a heading of their own.
const flagsHeading = "Flags"

// headingOf is the heading of a flag in help texts.
func headingOf(f *pflag.Flag) string {
	if group := f.Annotations[flagGroup]; len(group) > 0 {
		return group[0]
	}
	return flagsHeading
}

// topics are the words behind --help, with the headings of their flags.
var topics = []struct {
	name     string
	headings []string
}{
	{"models", []string{headings[setting.ModelGroup]}},
	{"training", []string{headings[setting.TrainingGroup]}},
	{"machine", []string{headings[setting.MachineGroup]}},
	{"axes", []string{
		headings[setting.GraphAxisGroup], headings[setting.TensorAxisGroup],
		headings[setting.PipelineAxisGroup],
	}},
	{"tables", []string{tablesHeading}},
	{"runs", []string{flagsHeading}},
}

// topicNames are those of the topics that a command has flags of.
func topicNames(cmd *cobra.Command) (names []string) {
	for _, topic := range topics {
		there := false
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			there = there || !f.Hidden && slices.Contains(topic.headings, headingOf(f))
		})
		if there {
			names = append(names, topic.name)
		}
	}
	return names
}

// printTopic prints the flags of a topic, if a command has one of that name.
func printTopic(out io.Writer, cmd *cobra.Command, name string) bool {
	if cmd.Flags().Lookup(helpAllFlag) == nil || !slices.Contains(topicNames(cmd), name) {
		return false
	}
	for _, topic := range topics {
		if topic.name == name {
			fmt.Fprintf(out, "Flags of %s about %s:\n", cmd.CommandPath(), name)
			printFlags(out, cmd, func(f *pflag.Flag) bool {
				return slices.Contains(topic.headings, headingOf(f))
			})
		}
	}
	return true
}

// helpAll is the flag --help-all: as --help, with all flags.
type helpAll struct{ given bool }

const helpAllFlag = "help-all"

// addHelpAll adds the flag.
func addHelpAll(flags *pflag.FlagSet) {
	flag := flags.VarPF(&helpAll{}, helpAllFlag, "", "print this help text with all flags")
	flag.NoOptDefVal, flag.Hidden = "true", true // the help text ends with it
}

// Set implements pflag.Value: nothing is done but help.
func (h *helpAll) Set(string) error {
	h.given = true
	return pflag.ErrHelp
}

func (h *helpAll) String() string { return strconv.FormatBool(h.given) }

// Type implements pflag.Value.
func (*helpAll) Type() string { return "bool" }

// left reports whether a help text leaves out a flag: one that few need, unless --help-all is given.
func left(cmd *cobra.Command, f *pflag.Flag) bool {
	all := cmd.Flags().Lookup(helpAllFlag)
	if all == nil || all.Value.String() == "true" || f.Changed {
		return false
	}
	return !slices.Contains(basic, f.Name)
}

// refuseUnknownShell makes weft completion refuse what is no shell that it knows.
func refuseUnknownShell(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Short = "print a shell's script for completion"
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownName(cmd, "shell", args[0])
		}
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
}
