package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"weft/train/metric"
	"weft/train/setting"
)

// table prints rows with aligned columns. Its cells may hold any text.
type table struct {
	out     io.Writer
	aligned *bytes.Buffer
	w       *tabwriter.Writer
}

func newTable(out io.Writer) table {
	aligned := new(bytes.Buffer)
	return table{out, aligned, tabwriter.NewWriter(aligned, 0, 0, 2, ' ', 0)}
}

func (t table) row(cells ...string) {
	shown := make([]string, len(cells))
	for i, cell := range cells {
		shown[i] = printable(cell)
	}
	fmt.Fprintln(t.w, strings.Join(shown, "\t"))
}

// field is a row that says something under a name, if there is something to say.
func (t table) field(name, said string) {
	if said != "" {
		t.row(name, said)
	}
}

func (t table) flush() {
	_ = t.w.Flush() // a buffer takes everything
	for line := range strings.Lines(t.aligned.String()) {
		fmt.Fprintln(t.out, strings.TrimRight(line, " \n"))
	}
}

// count writes a number with separators: 1,234,567.
func count[T int | int64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// counted writes a number of things: 1 class, 1,000 classes.
func counted[T int | int64](n T, one, many string) string {
	if n == 1 {
		return count(n) + " " + one
	}
	return count(n) + " " + many
}

// megabytes writes an amount of memory in the unit that suits it, in powers of 1000.
func megabytes(bytes int64) string { return setting.Bytes(bytes).Rounded() }

// duration writes a time with two or three digits that matter.
func duration(d time.Duration) string {
	s := d.Seconds()
	switch {
	case s < 0.00995:
		return fmt.Sprintf("%.1f ms", s*1000)
	case s < 0.9995:
		return fmt.Sprintf("%.0f ms", s*1000)
	case s < 9.95:
		return fmt.Sprintf("%.1f s", s)
	case s < 119.5:
		return fmt.Sprintf("%.0f s", s)
	case s < 119.5*60:
		return fmt.Sprintf("%d min %02d s", int(s)/60, int(s)%60)
	}
	return fmt.Sprintf("%d h %02d min", int(s)/3600, int(s)/60%60)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// measured writes a metric: shares in percent, errors in their own units; a dash where it was not measured.
func measured[T ~float64](name string, x T) string {
	if metric.IsFraction(name) || math.IsNaN(float64(x)) {
		return percent(float64(x))
	}
	return fmt.Sprintf("%.4g", x)
}

// percent writes a share, which lies between 0 and 1; a dash where it was not measured.
func percent(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return fmt.Sprintf("%.2f %%", 100*x)
}

// valAndTest writes a metric of what validates and what tests.
func valAndTest(name string, val, test metric.Number) string {
	return fmt.Sprintf("validation %s  test %s", measured(name, val), measured(name, test))
}

// linkRow is a metric of link prediction.
type linkRow struct {
	Name      string
	Val, Test metric.Number
}

// linkRows are the metrics that were measured of validation and test edges.
func linkRows(val, test map[string]metric.Number) (rows []linkRow) {
	for _, name := range metric.LinkNames {
		if _, there := val[name]; there {
			rows = append(rows, linkRow{name, val[name], test[name]})
		}
	}
	return rows
}
