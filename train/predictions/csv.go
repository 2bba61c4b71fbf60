package predictions

import (
	"encoding/csv"
	"io"
	"strconv"

	"weft/train/worker"
)

// writeCSV writes a table as RFC 4180 has it, with a header. Numbers have as many digits as float32 needs.
func writeCSV(to io.Writer, rows worker.Rows, t *Table) error {
	w := csv.NewWriter(to)
	line := t.header(rows.Columns)
	if err := w.Write(line); err != nil {
		return err
	}
	err := t.each(rows, func(r record) error {
		line = append(append(line[:0], strconv.FormatInt(r.vertex, 10)), r.words...)
		for _, x := range r.numbers {
			line = append(line, strconv.FormatFloat(float64(x), 'g', -1, 32))
		}
		return w.Write(line)
	})
	w.Flush()
	if err != nil {
		return err
	}
	return w.Error()
}
