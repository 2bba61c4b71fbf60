// Package lines reads text line by line, plain or gzip. Errors name the file and the line.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"

	"weft/internal/foreign"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// Form says what a text is.
type Form struct {
	Path    string       // in errors
	Kind    foreign.Kind // Gzip, or Unknown for plain text
	Text    string       // what the file should be, as "CSV"
	Line    string       // what a line is, as "a row of numbers"
	Longest int          // line, in bytes
}

// Reader reads the lines of a text.
type Reader struct {
	form   Form
	number int64
	lines  *bufio.Scanner
	file   io.Closer // nil where the text is the caller's
}

// New begins to read the text that r holds in that form.
func New(r io.Reader, form Form) (*Reader, error) {
	text := bufio.NewReader(r)
	if form.Kind == foreign.Gzip {
		z, err := gzip.NewReader(text)
		if err != nil {
			return nil, refusal.Damaged("%s: a damaged gzip file: %w", form.Path, err)
		}
		text = bufio.NewReader(z)
	}
	if start, _ := text.Peek(foreign.Head); bytes.IndexByte(start, 0) >= 0 { // an error comes again
		return nil, refusal.Errorf("%s: is no text: give %s", form.Path, form.Text)
	}
	l := &Reader{form: form, lines: bufio.NewScanner(text)}
	l.lines.Buffer(nil, form.Longest)
	return l, nil
}

// Open opens the file of the form's path, of which the kind is found.
func Open(form Form) (*Reader, error) {
	file, _, err := regular.Open(form.Path)
	if err != nil {
		return nil, err
	}
	text := bufio.NewReader(file)
	start, _ := text.Peek(foreign.Head) // an error comes again
	form.Kind = foreign.Recognize(start)
	l := (*Reader)(nil)
	if form.Kind == foreign.Unknown || form.Kind == foreign.Gzip {
		l, err = New(text, form)
	} else {
		err = form.Kind.Refuse(form.Path, form.Text+", plain or gzip")
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	l.file = file
	return l, nil
}

// Close closes the file that Open opened.
func (l *Reader) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// Next returns the next line without its end, which the call after it overwrites, and io.EOF after the last.
func (l *Reader) Next() ([]byte, error) {
	l.number++
	if l.lines.Scan() && l.lines.Err() == nil { // with an error the line may be cut
		line := l.lines.Bytes()
		if l.number == 1 {
			line = bytes.TrimPrefix(line, []byte(foreign.ByteOrderMark))
		}
		return bytes.TrimRight(line, "\r"), nil
	}
	switch err := l.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, l.Errorf("the line is longer than %d bytes, which is not %s", l.form.Longest, l.form.Line)
	case err != nil:
		return nil, refusal.Damaged("%s:%d: %w: the file is damaged or cut short", l.form.Path, l.number, err)
	}
	return nil, io.EOF
}

// Number returns the number of the last line, from 1.
func (l *Reader) Number() int64 { return l.number }

// Errorf is a refusal of the last line.
func (l *Reader) Errorf(format string, args ...any) error {
	return refusal.Errorf("%s:%d: %w", l.form.Path, l.number, fmt.Errorf(format, args...))
}
