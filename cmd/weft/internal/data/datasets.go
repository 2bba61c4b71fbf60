package data

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/graph/datasets"
)

// NewDatasets makes the command datasets.
func NewDatasets() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "datasets",
		Short: "list the graphs that can be trained on by name",
		Long: `datasets lists the graphs that weft train NAME knows. It says where they come from, and where their files are or which are missing.

weft makes the store of such a graph at its first use and keeps it in the user's cache directory, or in $WEFT_CACHE.
It reads published datasets from the folder $WEFT_DATA, with the files as authors publish them or downloaders leave them.
weft train NAME says which files it needs and where they are published. weft stores --cache lists what was made of files.`,
		Example: "  weft datasets\n  WEFT_DATA=~/data weft train cora --config cora-gcn",
		Args:    cli.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			listed := listedDatasets{}
			for _, d := range datasets.All() {
				entry := listedDataset{
					Name: d.Name, About: d.About, Origin: d.Origin, Missing: d.Missing(), Place: d.Place(),
				}
				entry.Vertices, entry.Edges, _ = d.Size()
				listed.Datasets = append(listed.Datasets, entry)
			}
			return ui.Show(cmd.OutOrStdout(), &listed, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// listedDatasets are the graphs with a name: the JSON object of `weft datasets --json`.
type listedDatasets struct {
	Datasets []listedDataset `json:"datasets"`
}

// listedDataset is one of them. Vertices and Edges are 0 if they are unknown before the graph is there.
type listedDataset struct {
	Name     string `json:"name"`
	Vertices int    `json:"vertices,omitzero"`
	Edges    int64  `json:"edges,omitzero"`
	About    string `json:"about"`
	Origin   string `json:"origin"`
	Missing  string `json:"missing,omitzero"` // the files that it needs
	Place    string `json:"place,omitzero"`   // where its files or its store are
}

func (l *listedDatasets) Print(out io.Writer) {
	t := ui.NewTable(out)
	t.Row("NAME", "VERTICES", "EDGES", "WHAT", "FROM", "AVAILABLE")
	for _, d := range l.Datasets {
		vertices, edges, available := "", "", "yes"
		if d.Vertices > 0 {
			vertices, edges = ui.Count(d.Vertices), ui.Count(d.Edges)
		}
		if d.Missing != "" {
			available = "needs " + d.Missing
		} else if d.Place != "" {
			available += ", " + d.Place
		}
		t.Row(d.Name, vertices, edges, d.About, d.Origin, available)
	}
	t.LeaveOut("FROM", "EDGES", "VERTICES")
	t.Flush()
	fmt.Fprintln(out, "\nTrain on one with: weft train NAME")
}
