package predictions

import (
	"encoding/csv"
	"io"
	"strconv"

	"weft/train/worker"
)

// writeCSV writes a table by RFC 4180, with a header. Texts are escaped by cell unless the table is Plain.
// Numbers have as many digits as float32 needs.
func writeCSV(to io.Writer, rows worker.Rows, t *Table) error {
	w, shown := csv.NewWriter(to), cell
	if t.Plain {
		shown = func(name string) string { return name }
	}
	columns := t.columns(rows.Columns)
	line := make([]string, len(columns))
	for k, c := range columns {
		line[k] = shown(c.name)
	}
	if err := w.Write(line); err != nil {
		return err
	}
	err := t.each(rows, func(fields []field) error {
		for k, f := range fields {
			switch kind := columns[k].kind; {
			case f.missing:
				line[k] = ""
			case kind == text:
				line[k] = shown(f.text)
			case kind == integer:
				line[k] = strconv.FormatInt(f.integer, 10)
			default:
				line[k] = strconv.FormatFloat(float64(f.number), 'g', -1, 32)
			}
		}
		return w.Write(line)
	})
	w.Flush()
	if err != nil {
		return err
	}
	return w.Error()
}
