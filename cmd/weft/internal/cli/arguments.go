// Package cli is what the commands share: arguments, flags, completion, settings, ranks and signals. Only
// commands call it.
package cli

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/train/setting"
)

// UnknownFlag proposes the flag that was meant, also if it was given with one dash.
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
	if advice := otherNames[what].For(word); advice != "" {
		return refusal.Errorf("unknown %s %q; %s", what, word, advice)
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return refusal.Errorf("unknown %s %q; %s", what, word, suggest.OneOf(word, names))
}

// Arguments accepts between low and high positional arguments, which the command's usage line names. It
// refuses an empty argument, which is an unset variable of a shell.
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

// otherNames explain names of subcommands of other tools, by what UnknownName calls them.
var otherNames = map[string]suggest.Other{"command": otherCommands, "format": otherFormats}

// otherCommands explain commands of other tools.
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

// otherFormats explain formats of other tools.
var otherFormats = suggest.Other{
	{"CSV, TSV and Parquet files of edges are read by: weft import edges EDGES STORE; a table of vertices " +
		"comes with them by --vertices-from TABLE", "csv tsv txt parquet table tables pandas dataframe " +
		"edge-list edgelist list"},
	{"write the edges as CSV, as networkx.to_pandas_edgelist(G).to_csv(FILE) does, and the vertices as a " +
		"table: weft import edges FILE STORE --vertices-from TABLE", "networkx nx graphml gml gexf"},
	{"weft import pyg reads what torch.save wrote", "pt torch pytorch geometric torch-geometric"},
	{"weft import rdf reads N-Triples", "nt n-triples"},
	{"weft import npz reads NumPy's archives", "numpy"},
	{"examples/ppi/ppi.py, in the sources of weft, writes the files of PPI as an archive that weft import npz " +
		"reads", "ppi"},
}

// otherFlags explain flags of other tools, in commands that have a flag of weft in their place. The flags of
// train have a table of their own, setting.Elsewhere.
var otherFlags = []struct {
	has    string
	advice suggest.Other
}{
	{"columns", suggest.Other{{
		"--columns class,probability,probabilities writes them beside each vertex",
		"probabilities probability probs proba prob predict-proba softmax scores",
	}}},
	{"add-edges", suggest.Other{{
		"--add-vertices and --add-edges name tables of what is new", "vertices edges vertices-from new-edges",
	}}},
	{"largest-component", suggest.Other{{"the last argument is the store to write", "out output store"}}},
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

// otherFlag is what a command has in place of a flag of another tool; "": nothing, for any other word.
func otherFlag(cmd *cobra.Command, name string) string {
	if advice, _ := setting.Elsewhere(name); advice != "" && cmd.Flags().Lookup("epochs") != nil {
		return advice
	}
	for _, other := range otherFlags {
		if advice := other.advice.For(name); advice != "" && cmd.Flags().Lookup(other.has) != nil {
			return advice
		}
	}
	return ""
}

// countFlag is a flag of a whole number, in the forms that setting.Integer reads.
type countFlag struct{ pflag.Value }

// Set implements pflag.Value.
func (c countFlag) Set(text string) error {
	n, err := setting.Integer(text)
	if err != nil {
		return err
	}
	return c.Value.Set(strconv.Itoa(n))
}

// ReadCounts reads the flags of whole numbers of a command, and of its subcommands, as counts.
func ReadCounts(cmd *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if _, ours := f.Value.(*SettingValue); !ours && f.Value.Type() == "int" {
				f.Value = countFlag{f.Value}
			}
		})
	}
	for _, c := range cmd.Commands() {
		ReadCounts(c)
	}
}

// CheckPort refuses a number that no TCP port has.
func CheckPort(flag string, port int) error {
	const highest = 1<<16 - 1
	if port < 0 || port > highest {
		return refusal.Errorf("--%s %d: ports have the numbers 1 to %d; 0 takes a free one", flag, port, highest)
	}
	return nil
}

// linkRate is a rate with its unit. It counts bits, or bytes with a capital B.
var linkRate = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([kKmMgGtT]?)((?i:bit/s|bit)|bps|b/s|Bps|B/s)$`)

// BytesPerSecond reads a rate as people write it: 100mbit, 10gbps, 25Gb/s or 12.5GB/s. is reports whether it
// is a rate from 1 B/s to 1 PB/s, by which times and bytes can be told.
func BytesPerSecond(text string) (rate float64, is bool) {
	m := linkRate.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	rate, err := strconv.ParseFloat(m[1], 64)
	rate *= setting.Thousands[strings.ToLower(m[2])]
	if !strings.HasPrefix(m[3], "B") || strings.HasPrefix(strings.ToLower(m[3]), "bit") {
		rate /= 8
	}
	return rate, err == nil && rate >= 1 && rate <= 1e15
}

// InvalidValue says what a flag accepts. The settings of train do this themselves.
func InvalidValue(err *pflag.InvalidValueError) error {
	flag, reason := err.GetFlag(), err.Unwrap().Error()
	if next := err.GetValue(); strings.HasPrefix(next, "--") {
		return refusal.Errorf("--%s needs a value, and %s follows it", flag.Name, next)
	}
	_, ours := flag.Value.(*SettingValue)
	switch kind := flag.Value.Type(); {
	case ours:
	case kind == "uint", kind == "uint64":
		reason = "must be a whole number, 0 or more"
	case kind == "float64":
		reason = "must be a number"
	case kind == "bool":
		reason = "must be true or false"
	}
	if flag.Name == "seeds" {
		reason += ", of runs: --seed 1 --seeds 3 trains with the seeds 1, 2 and 3"
	}
	return refusal.Errorf("--%s %s: %s", flag.Name, err.GetValue(), reason)
}
