package cli

import (
	"errors"
	"testing"

	"github.com/spf13/pflag"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestNames: names between commas are read as the fields of a table are, and written so that they are read
// again.
func TestNames(t *testing.T) {
	for text, want := range map[string][]string{
		"class":          {"class"},
		"a,b":            {"a", "b"},
		" a , b c ":      {"a", "b c"},
		`a"b`:            {`a"b`},
		`a"b,c"`:         {`a"b`, `c"`},
		`"a, b",c`:       {"a, b", "c"},
		`"d ""e""","f"g`: {`d "e"`, "fg"},
		`"""a"`:          {`"a`},
		"a,":             {"a", ""},
		"":               nil,
	} {
		var names []string
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		NamesVar(flags, &names, "columns", "")
		require.NoError(t, flags.Parse([]string{"--columns=" + text}))
		assert.Equal(t, want, names, text)
		again := flags.Lookup("columns").Value.String()
		require.NoError(t, flags.Parse([]string{"--columns=x,y", "--columns", again}))
		assert.Equal(t, append(append(append([]string(nil), want...), "x", "y"), want...), names, text)
	}
	names := []string{"by default"}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	NamesVar(flags, &names, "columns", "")
	var invalid *pflag.InvalidValueError
	for _, text := range []string{`"a,b`, `a,"b`, `"a"",b`} {
		if !errors.As(flags.Parse([]string{"--columns=" + text}), &invalid) {
			t.Fatalf("%s is taken", text)
		}
		assert.Refused(t, InvalidValue(invalid), "--columns "+text+": a name begins with a quote that no other closes: "+
			"close it, or write the name in quotes, and its own quotes twice")
		assert.Equal(t, []string{"by default"}, names)
	}
	require.NoError(t, flags.Parse([]string{`--columns=a"b`}))
	assert.Equal(t, []string{`a"b`}, names)
}
