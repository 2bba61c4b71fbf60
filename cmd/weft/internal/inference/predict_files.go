package inference

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/cli"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/predictions"
)

// predictedFiles are the files that predict writes.
type predictedFiles struct {
	out, embeddings string
	plain           bool // names are not escaped
	listed          bool // only some vertices are predicted; an array does not have their ids
}

// add declares their flags.
func (f *predictedFiles) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.out, "out", "", "`file` for the predictions: .npy (logits, values or "+
		"embeddings, float32, vertices × columns), .csv or .parquet; an existing file is overwritten")
	flags.StringVar(&f.embeddings, "embeddings", "", EmbeddingsUsage+"; --out may then be left out")
	flags.BoolVar(&f.plain, "plain-names", false, "names in CSV are as they are, for programs that read it: with "+
		"control characters, and without an apostrophe before what spreadsheets take for formulas")
}

// outputs are the files, with that of the listed vertices.
func (f *predictedFiles) outputs() cli.Outputs {
	return cli.Outputs{
		{Flag: "out", Path: f.out},
		{Flag: "out", Path: f.vertexFile()},
		{Flag: "embeddings", Path: f.embeddings},
	}
}

// check refuses, before any work, files that could not be written, or that are inputs.
func (f *predictedFiles) check(inputs []string) error {
	if f.main() == "" {
		return cli.CheckFile("out", "")
	}
	return f.outputs().Check(inputs...)
}

// checkEndings refuses endings that name no format.
func (f *predictedFiles) checkEndings() error {
	for _, file := range [][2]string{{"out", f.out}, {"embeddings", f.embeddings}} {
		if file[1] == "" {
			continue
		}
		if err := predictions.CheckEnding(file[0], file[1]); err != nil {
			return err
		}
	}
	if f.plain && !predictions.IsCSV(f.out) && !predictions.IsCSV(f.embeddings) {
		return refusal.Errorf("--plain-names: is for CSV, and names in other files are as they are; leave it out, or " +
			"give --out FILE.csv")
	}
	return nil
}

// main is the file of the predictions or, without them, of the embeddings.
func (f *predictedFiles) main() string { return cmp.Or(f.out, f.embeddings) }

// vertexFile is the file for the ids of the listed vertices. It is "" without a list, and if the main file is
// a table, a pipe or a link.
func (f *predictedFiles) vertexFile() string {
	path := f.main()
	if info, err := os.Lstat(path); !f.listed || path == "" || !predictions.IsMatrix(path) ||
		err == nil && !info.Mode().IsRegular() {
		return ""
	}
	return strings.TrimSuffix(path, filepath.Ext(path)) + ".vertices.npy"
}

// need is what a prediction computes for the files. inTable says that a table has the embeddings.
func (f *predictedFiles) need(inTable bool) train.Outputs {
	switch {
	case f.out == "":
		return train.Embeddings
	case f.embeddings != "" || inTable:
		return train.WithEmbeddings
	}
	return train.Logits
}

// EmbeddingsUsage is the help of --embeddings.
const EmbeddingsUsage = "`file` for the last hidden layer: .npy (float32, vertices × columns), .csv " +
	"or .parquet"

// answersGiven are the words for what a table of predictions says, and in which order.
type answersGiven struct {
	columns []string
	sort    string
	top     int
}

// add declares their flags.
func (a *answersGiven) add(flags *pflag.FlagSet) {
	cli.NamesVar(flags, &a.columns, "columns", "`names` of what a table says of each vertex: "+
		"class, probability (of that class), margin (the largest probability less the second largest), "+
		"entropy, probabilities, value, embedding, change; name and vertex, of edges edge (row of new ones) "+
		"and the columns of both ends, come first by themselves (default: class,probability; of several labels "+
		"and of edges probabilities; of values value)")
	flags.StringVar(&a.sort, "sort", "", "`column` by which the rows of a table are sorted: a class or "+
		"label, its likeliest vertices first; probability, margin or entropy, the most uncertain first; "+
		"value or change, the largest first; edge or row, the number of an edge; a - before it reverses (default: "+
		"the graph's order; of new edges in two classes the likeliest of the second class first)")
	flags.IntVar(&a.top, "top", 0, "of a sorted table the `number` of rows, the first ones (default: all)")
}

// answersAsked are these words, parsed.
type answersAsked struct {
	answers []predictions.Answer // nil: the default answers
	order   predictions.Order
}

// parse reads the words. It refuses some of them if out is no table. ofNew says that the edges are new, so
// that they may have an order by themselves (likeliestFirst).
func (a *answersGiven) parse(out string, ofEdges, ofNew bool) (asked answersAsked, err error) {
	if asked.answers, err = predictions.ParseAnswers(a.columns, ofEdges); err != nil {
		return asked, err
	}
	asked.order = predictions.Order{By: a.sort, Top: a.top}
	if err = asked.order.Check(); err != nil && (!ofEdges || !ofNew || a.top < 0) {
		return asked, err
	}
	flag := "--columns " + strings.Join(a.columns, ",")
	switch {
	case asked.answers == nil && asked.order == predictions.Order{}:
		return asked, nil
	case asked.answers == nil && a.sort != "":
		flag = "--sort " + a.sort
	case asked.answers == nil:
		flag = "--top " + strconv.Itoa(a.top)
	}
	switch {
	case out == "":
		return asked, refusal.Errorf("%s: is for the table of --out; give --out FILE.csv or FILE.parquet, too",
			flag)
	case predictions.IsMatrix(out):
		return asked, refusal.Errorf("%s: is for tables, and %s is a NumPy array; give --out FILE.csv or "+
			"FILE.parquet", flag, out)
	}
	return asked, nil
}
