// Package cli is what the commands share: arguments, flags, completion, settings, ranks and signals.
package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/internal/refusal"
	"weft/internal/suggest"
)

// UnknownFlag proposes the flag that was meant, also for one dash instead of two.
func UnknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	written, name, value := "--"+err.GetSpecifiedName(), err.GetSpecifiedName(), ""
	if letters := err.GetSpecifiedShortnames(); letters != "" {
		written = "-" + letters
		name, _, _ = strings.Cut(letters, "=")
		value = strings.TrimPrefix(letters, name)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if now := otherFlag(cmd, name); now != "" {
		return refusal.Errorf("unknown flag: %s; %s", written, now)
	}
	if near := suggest.Nearest(name, names); near != "" {
		return refusal.Errorf("unknown flag: %s; did you mean --%s%s?", written, near, value)
	}
	return refusal.Errorf("unknown flag: %s; %s --help lists them", written, cmd.CommandPath())
}

// UnknownName refuses a word that should have been the name of a subcommand.
func UnknownName(cmd *cobra.Command, what, word string) error {
	if says := otherNames[what].For(word); says != "" {
		return refusal.Errorf("unknown %s %q; %s", what, word, says)
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return refusal.Errorf("unknown %s %q; %s", what, word, suggest.OneOf(word, names))
}

// Arguments accepts between low and high positional arguments, which the command's usage line names. An empty
// one is a variable of a shell that is not set, and names nothing.
func Arguments(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || len(args) > high {
			_, names, _ := strings.Cut(cmd.UseLine(), " ")
			return refusal.Errorf("wrong number of arguments (%d); the command is: weft %s", len(args), names)
		}
		if at := slices.Index(args, ""); at >= 0 {
			_, names, _ := strings.Cut(cmd.UseLine(), " ")
			return refusal.Errorf("argument %d is empty; the command is: weft %s", at+1, names)
		}
		return nil
	}
}
