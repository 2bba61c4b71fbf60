package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/internal/refusal"
)

// flagError says in the command's own words what is wrong with a flag.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		lacking *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		syntax  *pflag.InvalidSyntaxError
	)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return pflag.ErrHelp
	case errors.As(err, &unknown):
		if args := cmd.Flags().Args(); len(args) > 0 && cmd.HasAvailableSubCommands() {
			if r, is := data.Recognize(args[0]); is && cmd.Name() == data.ImportName {
				return r.UnknownFlag(cmd, unknown)
			}
			if err := cmd.ValidateArgs(args); err != nil {
				return err // a mistyped command's flags are no mistake
			}
		}
		return cli.UnknownFlag(cmd, unknown)
	case errors.As(err, &lacking):
		return refusal.Errorf("--%s needs a value; %s --help says which",
			lacking.GetFlag().Name, cmd.CommandPath())
	case errors.As(err, &invalid):
		return cli.InvalidValue(invalid)
	case errors.As(err, &syntax):
		return refusal.Errorf("%s is no flag; %s --help lists them",
			syntax.GetSpecifiedFlag(), cmd.CommandPath())
	}
	return err
}

// longOut spells -o as --out, which pflag does not know: it would take -optimizer for -o with a value.
func longOut(args []string) []string {
	args = slices.Clone(args)
	for k, arg := range args {
		switch rest, short := strings.CutPrefix(arg, "-o"); {
		case arg == "--":
			return args
		case short && (rest == "" || rest[0] == '='):
			args[k] = "--out" + rest
		}
	}
	return args
}

// refuseEmpty refuses an empty name or text, such as an unset variable of a shell, which would be taken for a
// flag that is not given. A setting may be empty, to override a file.
func refuseEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = refusal.Errorf("--%s: its value is empty; give one, or leave the flag out", f.Name)
		}
	})
	return err
}
