package data

import (
	"testing"

	"github.com/spf13/pflag"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestValuesOf: the values of a list between commas are taken by the flag as they were given.
func TestValuesOf(t *testing.T) {
	var columns, files []string
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.StringSliceVar(&columns, "leave-out", nil, "")
	flags.StringArrayVar(&files, "vertices-from", nil, "")
	args := []string{`--leave-out="a, b",c`, `--leave-out="d ""e"""`, "--vertices-from=f,g.csv"}
	require.NoError(t, flags.Parse(args))
	want := [][]string{{"a, b", "c", `d "e"`}, {"f,g.csv"}}
	assert.Equal(t, want, [][]string{columns, files})
	var again []string
	flags.Visit(func(f *pflag.Flag) {
		for _, value := range valuesOf(f) {
			again = append(again, "--"+f.Name+"="+value)
		}
	})
	columns, files = nil, nil
	flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.StringSliceVar(&columns, "leave-out", nil, "")
	flags.StringArrayVar(&files, "vertices-from", nil, "")
	require.NoError(t, flags.Parse(again))
	assert.Equal(t, want, [][]string{columns, files})
}
