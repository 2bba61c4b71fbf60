package main

import (
	"strings"

	"github.com/spf13/cobra"

	"weft/internal/refusal"
)

// newHelp is "weft help", which refuses what is no command.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "print the help text of a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
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
			case len(rest) > 0:
				return refusal.Errorf("help %s: %s has no commands of its own", strings.Join(args, " "), named.CommandPath())
			}
			named.InitDefaultHelpFlag()
			named.InitDefaultVersionFlag()
			return named.Help()
		},
	}
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
