package data

import (
	"archive/zip"
	"bytes"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/cli"
	"weft/graph/graphtest"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestValuesOf: the values of a list between commas are taken by the flag as they were given.
func TestValuesOf(t *testing.T) {
	var columns, files []string
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	cli.NamesVar(flags, &columns, "leave-out", "")
	flags.StringArrayVar(&files, "vertices-from", nil, "")
	args := []string{`--leave-out="a, b",c`, `--leave-out="d ""e""",f"g`, "--vertices-from=f,g.csv"}
	require.NoError(t, flags.Parse(args))
	want := [][]string{{"a, b", "c", `d "e"`, `f"g`}, {"f,g.csv"}}
	assert.Equal(t, want, [][]string{columns, files})
	var again []string
	flags.Visit(func(f *pflag.Flag) {
		for _, value := range valuesOf(f) {
			again = append(again, "--"+f.Name+"="+value)
		}
	})
	columns, files = nil, nil
	flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	cli.NamesVar(flags, &columns, "leave-out", "")
	flags.StringArrayVar(&files, "vertices-from", nil, "")
	require.NoError(t, flags.Parse(again))
	assert.Equal(t, want, [][]string{columns, files})
}

// TestEdgeLabelOfAFile: the flag of labels of edges is of lists of edges, and of other files names what is
// trained alone.
func TestEdgeLabelOfAFile(t *testing.T) {
	var arrays bytes.Buffer
	z := zip.NewWriter(&arrays)
	_, err := z.Create("edge_y.npy")
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for content, want := range map[string]bool{arrays.String(): false, "a,b\n1,2\n": true} {
		var tables TablesGiven
		cmd := &cobra.Command{}
		tables.Add(cmd, false)
		require.NoError(t, cmd.Flags().Parse([]string{"--edge-label=edge_y"}))
		s := tables.Source(graphtest.File(t, "edges", content))
		assert.Equal(t, want, s.Given(EdgeLabelFlag), "%q", content)
	}
}
