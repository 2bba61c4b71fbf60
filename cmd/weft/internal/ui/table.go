package ui

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"weft/train/metric"
	"weft/train/setting"
	"weft/train/worker"
)

// table prints rows with aligned columns. Its cells may hold any text. On a terminal it is at most as wide as
// the terminal.
type table struct {
	out     io.Writer
	columns int // of the terminal; 0: it is none
	rows    [][]string
	left    []string // headings of the columns that are left out
}

// NewTable makes a table on out, within the columns of the terminal if that is one.
func NewTable(out io.Writer) *table {
	t := &table{out: out}
	if f := terminalOf(out); f != nil {
		t.columns = terminalColumns(f)
	}
	return t
}

func (t *table) Row(cells ...string) {
	shown := make([]string, len(cells))
	for i, cell := range cells {
		shown[i] = Printable(cell)
	}
	t.rows = append(t.rows, shown)
}

// Field is a row with a value under a name, if the value is not empty.
func (t *table) Field(name, value string) {
	if value != "" {
		t.Row(name, value)
	}
}

// LeaveOut leaves out columns for which a narrow terminal has no room: the columns with these headings, the
// first headings first. The table then ends with a line that names them.
func (t *table) LeaveOut(headings ...string) {
	for _, heading := range headings {
		at := slices.Index(t.rows[0], heading)
		if at < 0 || t.columns == 0 || wide(t.widths()) <= t.columns {
			continue
		}
		for k, row := range t.rows {
			t.rows[k] = slices.Delete(slices.Clone(row), at, at+1)
		}
		t.left = append(t.left, heading)
	}
}

// columnGap is the number of blanks between two columns.
const columnGap = 2

// widths are the widths of the columns.
func (t *table) widths() (widths []int) {
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// wide is the width of a table with columns of these widths.
func wide(columns []int) (width int) {
	for _, w := range columns {
		width += w + columnGap
	}
	return width - columnGap
}

// squeezed are widths of columns that fit into columns in all. The widest columns give way, down to
// leastColumn.
func squeezed(widths []int, columns int) []int {
	const leastColumn = 8
	widths = slices.Clone(widths)
	for wide(widths) > columns {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= leastColumn {
			break
		}
		widths[widest]--
	}
	return widths
}

func (t *table) Flush() {
	var aligned bytes.Buffer
	w := tabwriter.NewWriter(&aligned, 0, 0, columnGap, ' ', 0)
	widths := t.widths()
	if t.columns > 0 && len(widths) > 0 {
		widths = squeezed(widths, t.columns)
	}
	for _, row := range t.rows {
		lines := [][]string{make([]string, len(row))}
		for i, cell := range row {
			for k, part := range folded(cell, widths[i]) {
				if k == len(lines) {
					lines = append(lines, make([]string, len(row)))
				}
				lines[k][i] = part
			}
		}
		for _, line := range lines {
			fmt.Fprintln(w, strings.Join(line, "\t"))
		}
	}
	_ = w.Flush() // a buffer takes all
	for line := range strings.Lines(aligned.String()) {
		fmt.Fprintln(t.out, strings.TrimRight(line, " \n"))
	}
	if t.left != nil {
		Note(t.out, "for a wider terminal, or in --json: "+strings.Join(t.left, ", "))
	}
}

// folded is a text in lines of at most width, which end after a blank or a mark if there is one.
func folded(text string, width int) (lines []string) {
	for rest := []rune(text); ; {
		if len(rest) <= width {
			return append(lines, string(rest))
		}
		end := cmp.Or(breakBefore(rest[:width+1], " /,;"), breakBefore(rest[:width+1], "-_=."), width)
		lines = append(lines, strings.TrimSpace(string(rest[:end])))
		rest = []rune(strings.TrimLeft(string(rest[end:]), " "))
	}
}

// breakBefore is where a line ends, in its second half. The next character is the last of text. The line ends
// after one of the marks, or before a blank; 0: nowhere.
func breakBefore(text []rune, marks string) int {
	for k := len(text) - 1; k > len(text)/2; k-- {
		if text[k] == ' ' || strings.ContainsRune(marks, text[k-1]) {
			return k
		}
	}
	return 0
}

// PrintNumbers prints a table whose columns, except the first, are aligned to the right. A narrow terminal
// has no room for the columns that leaveOut names.
func PrintNumbers(out io.Writer, rows [][]string, leaveOut ...string) {
	t := NewTable(out)
	for column := 1; column < len(rows[0]); column++ {
		width := 0
		for _, row := range rows {
			width = max(width, utf8.RuneCountInString(row[column]))
		}
		for _, row := range rows {
			row[column] = padded(row[column], width)
		}
	}
	for _, row := range rows {
		t.Row(row...)
	}
	t.LeaveOut(leaveOut...)
	t.Flush()
}

// Note prints a line of words, on a terminal in lines of its width.
func Note(out io.Writer, line string) {
	if f := terminalOf(out); f != nil {
		line = Filled(line, terminalColumns(f))
	}
	fmt.Fprintln(out, line)
}

// Count writes a number with separators: 1,234,567.
func Count[T int | int64](n T) string {
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

// Counted writes a number of things: 1 class, 1,000 classes.
func Counted[T int | int64](n T, one, many string) string {
	if n == 1 {
		return Count(n) + " " + one
	}
	return Count(n) + " " + many
}

// Megabytes writes an amount of memory in the unit that suits it, in powers of 1000.
func Megabytes(bytes int64) string { return setting.Bytes(bytes).Rounded() }

// Used says what a run used of a card.
func Used(d *worker.DeviceUsage) string {
	return fmt.Sprintf("%s: %s of its memory, %s to it and %s back an epoch%s", d.Name, Megabytes(d.PeakBytes),
		Megabytes(d.ToDeviceBytes), Megabytes(d.ToHostBytes), When(len(d.OnCPU) > 0, "; "+RunsOnCPU(d.OnCPU)))
}

// RunsOnCPU says which kernels no card has, with the bytes that are copied back for them, if these are known.
func RunsOnCPU(kernels worker.OnCPU) string {
	names := make([]string, len(kernels))
	for i, k := range kernels {
		names[i] = k.Kernel + When(k.ToHostBytes > 0, " ("+Megabytes(k.ToHostBytes)+" back)")
	}
	return "the CPU runs " + strings.Join(names, ", ")
}

// Duration writes a time with two or three digits that matter.
func Duration(d time.Duration) string {
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

// Seconds is s as a time.Duration, at most 146 years.
func Seconds(s float64) time.Duration { return time.Duration(min(s*float64(time.Second), 1<<62)) }

// Brief writes a time that may be very short; a dash for none.
func Brief(s float64) string {
	switch {
	case s == 0:
		return "–"
	case s < 0.00095:
		return fmt.Sprintf("%.0f µs", 1e6*s)
	}
	return Duration(Seconds(s))
}

// Measured writes a metric: shares in percent, errors in their own units, and a dash if it was not measured.
func Measured[T ~float64](name string, x T) string {
	if metric.IsFraction(name) || math.IsNaN(float64(x)) {
		return Percent(float64(x))
	}
	return fmt.Sprintf("%.4g", x)
}

// Percent writes a share between 0 and 1; a dash if it was not measured.
func Percent(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return fmt.Sprintf("%.2f %%", 100*x)
}

// ValAndTest writes a metric for validation and test.
func ValAndTest(name string, val, test metric.Number) string {
	return fmt.Sprintf("validation %s  test %s", Measured(name, val), Measured(name, test))
}

// linkRow is a metric of link prediction.
type linkRow struct {
	Name      string
	Val, Test metric.Number
}

// LinkRows are the metrics that were measured for validation and test edges.
func LinkRows(val, test map[string]metric.Number) (rows []linkRow) {
	for _, name := range metric.LinkNames {
		if _, there := val[name]; there {
			rows = append(rows, linkRow{name, val[name], test[name]})
		}
	}
	return rows
}

// Filled breaks the lines of paragraphs anew, to at most width. Lines that begin with a blank stay.
func Filled(text string, width int) string {
	var lines []string
	line := ""
	end := func() {
		if line != "" {
			lines, line = append(lines, line), ""
		}
	}
	for _, old := range strings.Split(text, "\n") {
		if old == "" || old[0] == ' ' {
			end()
			lines = append(lines, old)
			continue
		}
		for _, word := range strings.Fields(old) {
			if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
				end()
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
	}
	end()
	return strings.Join(lines, "\n")
}
