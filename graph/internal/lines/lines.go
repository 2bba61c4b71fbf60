// Package lines reads text line by line, plain, gzip or Zstandard. Errors name the file and the line. Readers
// of text files call it.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"weft/graph/internal/pump"
	"weft/internal/foreign"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// Form says what a text is.
type Form struct {
	Path    string       // in errors
	Kind    foreign.Kind // Gzip, Zstd, or Unknown for plain text; Open finds it out
	Text    string       // what the file should be, such as "CSV"
	Line    string       // what a line should be, such as "a row of numbers"
	Longest int          // line, in bytes
}

// Reader reads the lines of a text.
type Reader struct {
	form   Form
	start  []byte // of the text
	number int64
	lines  *bufio.Scanner
	ahead  *unpacked // nil for plain text
	end    func()    // ends the unpacking; nil: there is nothing to end
	file   io.Closer // nil if the text is the caller's
}

const buffer = 64 << 10 // bytes that are read at a time

// ahead is the number of bytes, at the beginning of a text, in which Behind looks.
const ahead = 16 << 10

// New begins to read the text that r holds in that form.
func New(r io.Reader, form Form) (*Reader, error) {
	l := &Reader{form: form}
	text := bufio.NewReaderSize(r, buffer)
	switch form.Kind {
	case foreign.Gzip:
		z, err := gzip.NewReader(text)
		if err != nil {
			return nil, refusal.Damaged("%s: a damaged gzip file: %w", form.Path, err)
		}
		l.ahead = unpack(z)
	case foreign.Zstd:
		const window = 128 << 20 // of zstd --ultra
		z, err := zstd.NewReader(text, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
		if err != nil {
			return nil, refusal.Damaged("%s: a damaged Zstandard file: %w", form.Path, err)
		}
		l.ahead, l.end = unpack(z), z.Close
	}
	if l.ahead != nil {
		text = bufio.NewReaderSize(l.ahead, buffer)
	}
	start, _ := text.Peek(ahead) // an error comes again
	l.start = bytes.Clone(start)
	if bytes.IndexByte(start[:min(len(start), foreign.Head)], 0) >= 0 {
		err := refusal.Errorf("%s: is no text: give %s", form.Path, form.Text)
		if bytes.HasPrefix(start, []byte("\xff\xfe")) || bytes.HasPrefix(start, []byte("\xfe\xff")) {
			err = refusal.Errorf("%s: is UTF-16: convert the file, as with iconv -f UTF-16 -t UTF-8",
				form.Path)
		}
		return nil, errors.Join(err, l.Close())
	}
	l.lines = bufio.NewScanner(text)
	l.lines.Buffer(make([]byte, 0, buffer), form.Longest)
	return l, nil
}

// Open opens the file of the form's path.
func Open(form Form) (*Reader, error) {
	file, _, err := regular.Open(form.Path)
	if err != nil {
		return nil, err
	}
	text := bufio.NewReaderSize(file, buffer)
	start, _ := text.Peek(foreign.Head) // an error comes again
	if form.Kind == foreign.Unknown {
		form.Kind = foreign.Recognize(start)
	}
	l := (*Reader)(nil)
	if form.Kind == foreign.Unknown || form.Kind.Compressed() {
		l, err = New(text, form)
	} else {
		err = form.Kind.Refuse(form.Path, form.Text+", plain, gzip or zstd")
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	l.file = file
	return l, nil
}

// Close ends the reading, and closes the file that Open opened.
func (l *Reader) Close() error {
	if l.ahead != nil {
		l.ahead.blocks.Close()
	}
	if l.end != nil {
		l.end()
	}
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// Each opens the file of the form's path and calls do with each line that is not blank. An error of do is a
// refusal of the line.
func Each(form Form, do func(line []byte, number int64) error) error {
	l, err := Open(form)
	if err != nil {
		return err
	}
	defer l.Close()
	for {
		line, err := l.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := do(line, l.number); err != nil {
			return l.Errorf("%w", err)
		}
	}
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

// Behind returns the first lines behind line, as far as they are among the first bytes of the text.
func (l *Reader) Behind(line []byte) [][]byte {
	at := bytes.Index(l.start, line)
	if at < 0 {
		return nil
	}
	all := bytes.Split(l.start[at+len(line):], []byte("\n"))
	if len(l.start) == ahead { // the last line is cut
		all = all[:len(all)-1]
	}
	for k := range all {
		all[k] = bytes.TrimRight(all[k], "\r")
	}
	return all[min(1, len(all)):]
}

// Number returns the number of the last line, from 1.
func (l *Reader) Number() int64 { return l.number }

// Errorf makes a refusal of the last line.
func (l *Reader) Errorf(format string, args ...any) error {
	return refusal.Errorf("%s:%d: %w", l.form.Path, l.number, fmt.Errorf(format, args...))
}

// unpacked is text that is decompressed ahead of its reader.
type unpacked struct {
	blocks *pump.Pump[[]byte]
	left   []byte // of the last block
}

func unpack(z io.Reader) *unpacked {
	const block = 256 << 10
	return &unpacked{blocks: pump.New(func(buffer []byte) ([]byte, error) {
		if buffer == nil {
			buffer = make([]byte, block)
		}
		n, err := z.Read(buffer[:block])
		if n > 0 { // the error comes again
			err = nil
		}
		return buffer[:n], err
	})}
}

func (u *unpacked) Read(p []byte) (n int, err error) {
	if len(u.left) == 0 {
		if u.left, err = u.blocks.Next(); err != nil {
			return 0, err
		}
	}
	n = copy(p, u.left)
	u.left = u.left[n:]
	return n, nil
}
