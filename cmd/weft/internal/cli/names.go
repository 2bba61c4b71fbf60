package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"weft/graph/tables"
)

// Names is the value of a flag that takes names between commas, as of columns. Each time the flag is given
// adds some. Names in quotes are those of a table of text (tables.Names).
type Names struct {
	to      *[]string
	changed bool
}

// NamesVar declares a flag whose names go to a slice. Its default is what the slice has.
func NamesVar(flags *pflag.FlagSet, to *[]string, name, usage string) {
	flags.Var(&Names{to: to}, name, usage)
}

// Set adds the names in a text. It refuses a quote that is not closed.
func (n *Names) Set(text string) error {
	names, err := tables.Names(text)
	if err != nil {
		return err
	}
	if !n.changed {
		*n.to, n.changed = nil, true
	}
	*n.to = append(*n.to, names...)
	return nil
}

// Type implements pflag.Value.
func (*Names) Type() string { return "stringSlice" }

// String is the names as Set takes them.
func (n *Names) String() string {
	if n.to == nil { // pflag asks a zero value
		return ""
	}
	return strings.Join(n.Quoted(), ",")
}

// Quoted are the names, each as Set takes it: one with a comma or a quote stands in quotes.
func (n *Names) Quoted() []string {
	names := slices.Clone(*n.to)
	for i, name := range names {
		if strings.ContainsAny(name, ",\"") {
			names[i] = `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		}
	}
	return names
}

// Append implements pflag.SliceValue.
func (n *Names) Append(name string) error {
	*n.to = append(*n.to, name)
	return nil
}

// Replace implements pflag.SliceValue.
func (n *Names) Replace(names []string) error {
	*n.to = names
	return nil
}

// GetSlice implements pflag.SliceValue.
func (n *Names) GetSlice() []string { return *n.to }
