// Package document reads the files that describe graphs, partitions and runs. A file may come from anywhere,
// so its cost is bounded before a parser sees it.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"weft/internal/foreign"
	"weft/internal/memory"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// Read returns the text of the regular file of that name, without a byte order mark. It refuses more than
// limit bytes. Errors name the file.
func Read(path string, limit int64) ([]byte, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := ReadFrom(f, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}

// ReadFrom is Read for a reader, up to its end.
func ReadFrom(r io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, refusal.Errorf("longer than the %d bytes that such a file may have", limit)
	}
	return bytes.TrimPrefix(text, []byte(foreign.ByteOrderMark)), nil
}

// JSON decodes a JSON object into v. The object's key "format" must be that number. JSON ignores keys that v
// does not have. The decoder goes no deeper than v, and skips at most 10,000 levels.
func JSON(text []byte, format int, v any) error {
	if err := checkFormat(text, format); err != nil {
		return err
	}
	return damaged(json.Unmarshal(text, v))
}

// StrictJSON is JSON, but refuses keys that v does not have.
func StrictJSON(text []byte, format int, v any) error {
	if err := checkFormat(text, format); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return damaged(decoder.Decode(v))
}

// The least bytes of a text for each of its objects, which have keys, and for each of its lists, which have
// values: a decoded {} may take forty times its length. few are free.
const (
	bytesOfObject = 16
	bytesOfList   = 4
	few           = 1000
)

// checkFormat comes before an object is decoded: a later format may have other keys.
func checkFormat(text []byte, format int) error {
	objects, lists := bytes.Count(text, []byte("{")), bytes.Count(text, []byte("["))
	if objects > len(text)/bytesOfObject+few || lists > len(text)/bytesOfList+few {
		return refusal.Damaged("damaged: %d objects and %d lists in %d bytes cannot be anything but empty",
			objects, lists, len(text))
	}
	var version struct{ Format int }
	if err := json.Unmarshal(text, &version); err != nil {
		return damaged(err)
	}
	if version.Format != format {
		return refusal.Errorf("format version %d, where this program reads %d", version.Format, format)
	}
	return nil
}

func damaged(err error) error {
	if err == nil {
		return nil
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return refusal.Damaged("damaged: byte %d ends a value of another type, %s", wrong.Offset, wrong.Value)
	}
	return refusal.Damaged("damaged: %w", err)
}

// Strings reads a JSON list of at most so many strings. One that exceeds the memory is refused.
func Strings(path string, most int) ([]string, error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := memory.Need(size); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	list, err := decodeStrings(json.NewDecoder(f), most)
	if err != nil {
		return nil, refusal.Damaged("%s: not a list of names: %w", path, err)
	}
	return list, nil
}

func decodeStrings(d *json.Decoder, most int) ([]string, error) {
	if first, err := d.Token(); err != nil {
		return nil, err
	} else if first != json.Delim('[') {
		return nil, fmt.Errorf("it begins with %v", first)
	}
	list := []string{}
	for d.More() {
		if len(list) == most {
			return nil, fmt.Errorf("more than %d", most)
		}
		var s string
		if err := d.Decode(&s); err != nil {
			return nil, err
		}
		var err error
		if list, err = memory.Grow(list, 1); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	if _, err := d.Token(); err != nil { // the closing bracket
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows behind the list")
	}
	return list, nil
}
