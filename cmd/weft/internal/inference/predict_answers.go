package inference

import (
	"strings"

	"github.com/spf13/pflag"

	"weft/internal/refusal"
	"weft/train/predictions"
)

// answersGiven are the words for what a table of predictions says, and in which order.
type answersGiven struct {
	columns []string
	sort    string
	top     int
}

// add declares their flags.
func (a *answersGiven) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&a.columns, "columns", nil, "`names` of what a table says of each vertex: "+
		"class, probability (of that class), margin (the largest probability less the second largest), "+
		"entropy, probabilities, value, embedding, change; name and vertex come first by themselves "+
		"(default: class,probability; of several labels probabilities; of values value)")
	flags.StringVar(&a.sort, "sort", "", "`column` by which the rows of a table are sorted: a class or "+
		"label, its likeliest vertices first; probability, margin or entropy, the most uncertain first; "+
		"value or change, the largest first; a - before it reverses (default: the graph's order)")
	flags.IntVar(&a.top, "top", 0, "with --sort the `number` of rows, the first ones (default: all)")
}

// answersAsked are these, understood.
type answersAsked struct {
	answers []predictions.Answer // nil: those by default
	order   predictions.Order
}

// parse reads the words. It refuses some for a file out that is no table.
func (a *answersGiven) parse(out string) (asked answersAsked, err error) {
	if asked.answers, err = predictions.ParseAnswers(a.columns); err != nil {
		return asked, err
	}
	asked.order = predictions.Order{By: a.sort, Top: a.top}
	if err = asked.order.Check(); err != nil {
		return asked, err
	}
	flag := "--columns " + strings.Join(a.columns, ",")
	switch {
	case asked.answers == nil && asked.order.By == "":
		return asked, nil
	case asked.answers == nil:
		flag = "--sort " + a.sort
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
