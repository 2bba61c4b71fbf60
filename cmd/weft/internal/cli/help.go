package cli

import (
	"strconv"

	"github.com/spf13/pflag"
)

// FlagGroup is the annotation that puts a flag under a heading of its own in the help text.
const FlagGroup = "group"

// helpAll is the flag --help-all: as --help, with all flags.
type helpAll struct{ given bool }

// HelpAllFlag is the name of the flag.
const HelpAllFlag = "help-all"

// addHelpAll adds the flag.
func addHelpAll(flags *pflag.FlagSet) {
	flag := flags.VarPF(&helpAll{}, HelpAllFlag, "", "print this help text with all flags")
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
