package cli

import (
	"github.com/spf13/cobra"

	"weft/internal/suggest"
	"weft/train/setting"
)

// otherNames say what there is for names of subcommands of other tools, by what UnknownName calls them.
var otherNames = map[string]suggest.Other{"command": otherCommands, "format": otherFormats}

// otherCommands say what there is for commands of other tools.
var otherCommands = suggest.Other{
	{"weft train STORE trains, and weft train --resume RUN goes on", "fit learn finetune fine-tune resume"},
	{"weft evaluate RUN measures a run on its test vertices", "test eval validate score metrics"},
	{"weft predict RUN --out FILE writes what a run predicts", "infer inference apply classify embed"},
	{"weft report RUN --out FILE.html draws the curves of runs", "plot draw chart curves visualize viz"},
	{"weft predict RUN --out FILE writes predictions, as .npy, .csv or .parquet; a run has its weights in " +
		"model.safetensors, and a store its arrays in .npy files", "export save dump"},
	{"weft import SOURCE STORE makes a store of a graph", "convert load ingest read"},
	{"weft inspect STORE describes a graph, and weft inspect RUN a run", "info show describe stats summary"},
	{"weft datasets lists the graphs with a name, and weft runs the runs", "list ls"},
	{"weft sweep FILE trains with many settings", "tune search grid hpo optuna"},
	{"weft runs compares the runs of a folder", "compare leaderboard history"},
}

// otherFormats say what there is for formats of other tools.
var otherFormats = suggest.Other{
	{"CSV, TSV and Parquet files of edges are read by: weft import edges EDGES STORE; a table of vertices " +
		"comes with them by --vertices-from TABLE", "csv tsv txt parquet table tables pandas dataframe " +
		"edge-list edgelist list"},
	{"write the edges as CSV, as networkx.to_pandas_edgelist(G).to_csv(FILE) does, and the vertices as a " +
		"table: weft import edges FILE STORE --vertices-from TABLE", "networkx nx graphml gml gexf"},
	{"weft import pyg reads what torch.save wrote", "pt torch pytorch geometric torch-geometric"},
	{"weft import rdf reads N-Triples", "nt n-triples"},
	{"weft import npz reads NumPy's archives", "numpy"},
}

// otherFlags say what there is for flags of other tools, in commands that have a flag of weft for it. The
// flags of train have a table of their own, setting.Elsewhere.
var otherFlags = []struct {
	has  string
	said suggest.Other
}{
	{"columns", suggest.Other{{
		"--columns class,probability,probabilities writes them beside each vertex",
		"probabilities probability probs proba prob predict-proba softmax scores",
	}}},
	{"add-edges", suggest.Other{{
		"--add-vertices and --add-edges name tables of what is new", "vertices edges vertices-from new-edges",
	}}},
	{"symmetrize", suggest.Other{{"the last argument is the store to write", "out output store"}}},
	{"out", suggest.Other{{"--out names the file", "output output-file outfile file save"}}},
	{"edge-factor", suggest.Other{
		{"--scale is the base-2 logarithm of the number of vertices", "vertices nodes num-vertices num-nodes"},
		{"--edge-factor is the number of edges for each vertex", "degree edges avg-degree"},
	}},
	{"quiet", suggest.Other{
		{
			"--quiet leaves out progress, and there is no more to show than without it",
			"verbose v vv verbosity debug log-level",
		},
		{"--quiet leaves out progress", "silent no-progress"},
	}},
}

// otherFlag is what a command has for a flag of another tool, "" for any other word.
func otherFlag(cmd *cobra.Command, name string) string {
	if says, _ := setting.Elsewhere(name); says != "" && cmd.Flags().Lookup("epochs") != nil {
		return says
	}
	for _, other := range otherFlags {
		if says := other.said.For(name); says != "" && cmd.Flags().Lookup(other.has) != nil {
			return says
		}
	}
	return ""
}
