package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"weft/internal/datasets"
)

func newDatasets() *cobra.Command {
	return &cobra.Command{
		Use:   "datasets",
		Short: "list the graphs that can be trained on by name",
		Long: `datasets lists the graphs that weft train NAME knows. It says where they come from, and where their files are or which are missing.

weft makes the store of such a graph at its first use and keeps it in the user's cache directory, or in $WEFT_CACHE.
It reads published datasets from the folder $WEFT_DATA, with the files as authors publish them or downloaders leave them.
weft train NAME says which files it needs and where they are published.`,
		Example: "  weft datasets\n  WEFT_DATA=~/data weft train cora --config cora-gcn",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			t := newTable(cmd.OutOrStdout())
			t.row("NAME", "VERTICES", "EDGES", "WHAT", "FROM", "AVAILABLE")
			for _, d := range datasets.All() {
				vertices, edges, available := "", "", "yes"
				if v, e, known := d.Size(); known {
					vertices, edges = count(v), count(e)
				}
				if missing := d.Missing(); missing != "" {
					available = "needs " + missing
				} else if place := d.Place(); place != "" {
					available += ", " + printable(place)
				}
				t.row(d.Name, vertices, edges, d.About, d.Origin, available)
			}
			t.flush()
			fmt.Fprintln(cmd.OutOrStdout(), "\nTrain on one with: weft train NAME")
			return nil
		},
	}
}
