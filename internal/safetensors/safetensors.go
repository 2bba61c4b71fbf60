// Package safetensors reads and writes weights in the format of Hugging Face's safetensors library: the
// length of a JSON header (8 bytes, little-endian), the header, then the tensors' bytes without gaps.
//
// Files are untrusted: every length and offset is compared with the bytes that are there before anything is
// allocated.
//
// Weights and checkpoints of a run are such files.
package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"weft/internal/foreign"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
	"weft/internal/regular"
)

const (
	metadataKey = "__metadata__"
	// maxHeader is the reference library's bound.
	maxHeader = 100_000_000
)

// Tensor holds float32 or int64 values, or the bits of bfloat16s, never two of these, in row order. A scalar
// has an empty shape.
type Tensor struct {
	Shape    []int
	Float32  []float32
	BFloat16 []uint16 // only to write; Read gives these as Float32
	Int64    []int64
}

// dtype returns the element type in which the tensor is written.
func (t Tensor) dtype() string {
	switch {
	case t.Int64 != nil:
		return "I64"
	case t.BFloat16 != nil:
		return "BF16"
	}
	return "F32"
}

// entry is a tensor's part of the header.
type entry struct {
	Dtype   string  `json:"dtype"`
	Shape   []int   `json:"shape"`
	Offsets []int64 `json:"data_offsets"` // begin and end within the data
}

// sizes are the bytes per element of the element types that are read.
var sizes = map[string]int64{"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4}

// ReadFile reads every tensor of a file, floats of any width as float32 and integers as int64, and the file's
// metadata (nil where it has none). Errors name the file.
func ReadFile(path string) (tensors map[string]Tensor, metadata map[string]string, err error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	tensors, metadata, err = Read(f, size)
	if err == nil {
		return tensors, metadata, nil
	}
	// A header's length may be the first bytes of another kind of file. A valid file has no such beginning.
	if kind := foreign.Of(f); kind != foreign.Unknown {
		return nil, nil, kind.Refuse(path, "what safetensors.torch.save_file writes")
	}
	return nil, nil, fmt.Errorf("%s: %w", path, err)
}

// Read reads a file of size bytes.
func Read(r io.Reader, size int64) (map[string]Tensor, map[string]string, error) {
	entries, metadata, data, err := readHeader(r, size)
	if err != nil {
		return nil, nil, err
	}
	tensors, err := readTensors(r, entries, data)
	return tensors, metadata, err
}

// ReadStream reads a file from a stream. It takes at most one byte behind the bytes that the header lists. It
// refuses a file that exceeds the memory.
func ReadStream(r io.Reader) (map[string]Tensor, map[string]string, error) {
	entries, metadata, _, err := readHeader(r, math.MaxInt64)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = refusal.Damaged("no safetensors file, or cut short; %s", wayOut)
	}
	if err != nil {
		return nil, nil, err
	}
	listed := int64(0)
	for _, e := range entries {
		listed = max(listed, min(e.Offsets[1], math.MaxInt64/2))
	}
	if err := memory.Need(2 * listed); err != nil { // for the bytes and the tensors
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, listed+1))
	if err != nil {
		return nil, nil, err
	}
	tensors, err := readTensors(bytes.NewReader(data), entries, int64(len(data)))
	return tensors, metadata, err
}

// readTensors reads the tensors from the bytes behind the header.
func readTensors(r io.Reader, entries map[string]entry, data int64) (map[string]Tensor, error) {
	names, err := inOrder(entries, data)
	if err != nil {
		return nil, err
	}
	tensors := make(map[string]Tensor, len(entries))
	for _, name := range names {
		e := entries[name]
		b := make([]byte, e.Offsets[1]-e.Offsets[0])
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, fmt.Errorf("reading tensor %q: %w", name, err)
		}
		tensors[name] = decode(e, b)
	}
	return tensors, nil
}

// inOrder returns the names of the tensors in the order of their bytes. data bytes follow the header. As in
// the reference library, the tensors fill them without gaps or overlaps. So memory is bounded by the file.
func inOrder(entries map[string]entry, data int64) ([]string, error) {
	names := slices.SortedFunc(maps.Keys(entries), byOffset(entries))
	at := int64(0)
	for _, name := range names {
		e := entries[name]
		length, err := e.bytes()
		if err != nil {
			return nil, refusal.Damaged("tensor %q: %w", name, err)
		}
		if e.Offsets[0] != at || length > data-at || e.Offsets[1] != at+length {
			return nil, refusal.Damaged("tensor %q: bytes %d to %d where %d bytes from %d were due, of %d "+
				"there; the file is damaged or cut short", name, e.Offsets[0], e.Offsets[1], length, at, data)
		}
		at += length
	}
	if at != data {
		return nil, refusal.Damaged("%d bytes follow the last tensor", data-at)
	}
	return names, nil
}

const wayOut = "give the model.safetensors of a run, or what safetensors.torch.save_file writes"

// readHeader returns the header's entries, the metadata, and the number of bytes behind the header.
func readHeader(r io.Reader,
	size int64,
) (entries map[string]entry, metadata map[string]string, data int64, err error) {
	var start [8]byte
	if size < int64(len(start)) {
		return nil, nil, 0, refusal.Damaged("no safetensors file: it has %d bytes; %s", size, wayOut)
	}
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return nil, nil, 0, err
	}
	length := binary.LittleEndian.Uint64(start[:])
	switch {
	case length > uint64(size-8):
		return nil, nil, 0, refusal.Damaged("no safetensors file, or cut short: its header claims %d bytes "+
			"of %d; %s", length, size-8, wayOut)
	case length > maxHeader:
		return nil, nil, 0, refusal.Damaged("no safetensors file: its header claims %d bytes, and the "+
			"format has %d at most; %s", length, maxHeader, wayOut)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, nil, 0, err
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, nil, 0, refusal.Damaged("no safetensors file: its header is not JSON: %w; %s", err,
			wayOut)
	}
	if err := checkKeys(json.NewDecoder(bytes.NewReader(text))); err != nil {
		return nil, nil, 0, refusal.Damaged("its header %w", err)
	}
	entries = make(map[string]entry, len(raw))
	for name, value := range raw {
		if name == metadataKey {
			if err := json.Unmarshal(value, &metadata); err != nil {
				return nil, nil, 0, refusal.Damaged("%s: %w", metadataKey, err)
			}
			continue
		}
		var e entry
		if err := json.Unmarshal(value, &e); err != nil {
			return nil, nil, 0, refusal.Damaged("tensor %q: %w", name, err)
		}
		if len(e.Offsets) != 2 {
			return nil, nil, 0, refusal.Damaged("tensor %q: data_offsets are not two numbers", name)
		}
		entries[name] = e
	}
	return entries, metadata, size - 8 - int64(length), nil
}

// checkKeys refuses an object that has a key twice, in the next JSON value. The format forbids it, as readers
// differ in the one that counts.
func checkKeys(d *json.Decoder) error {
	start, err := d.Token()
	if err != nil || start != json.Delim('{') && start != json.Delim('[') {
		return err
	}
	keys := map[string]bool{}
	for d.More() {
		if start == json.Delim('{') {
			token, err := d.Token()
			if err != nil {
				return err
			}
			key, _ := token.(string)
			if keys[key] {
				return fmt.Errorf("has the key %.80q twice, which the format forbids: save it again", key)
			}
			keys[key] = true
		}
		if err := checkKeys(d); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// byOffset orders names as their data lies in the file. Empty tensors come before the tensor that starts at
// the same place.
func byOffset(entries map[string]entry) func(a, b string) int {
	return func(a, b string) int {
		x, y := entries[a].Offsets, entries[b].Offsets
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]), cmp.Compare(a, b))
	}
}

// bytes returns the number of bytes for the shape and the element type.
func (e entry) bytes() (int64, error) {
	size, ok := sizes[e.Dtype]
	if !ok {
		return 0, fmt.Errorf("dtype %q is not read; convert it to F32 or I64", e.Dtype)
	}
	n, err := npy.Header{Shape: e.Shape}.Elements()
	if err != nil {
		return 0, err
	}
	if int64(n) > math.MaxInt64/size {
		return 0, fmt.Errorf("shape %v has more bytes than can be counted", e.Shape)
	}
	return int64(n) * size, nil
}

// decode converts the bytes of a tensor, whose number fits its shape.
func decode(e entry, b []byte) Tensor {
	t := Tensor{Shape: slices.Clone(e.Shape)}
	if t.Shape == nil {
		t.Shape = []int{}
	}
	le := binary.LittleEndian
	n := len(b) / int(sizes[e.Dtype])
	if e.Dtype == "I64" || e.Dtype == "I32" {
		t.Int64 = make([]int64, n)
		for k := range t.Int64 {
			if e.Dtype == "I64" {
				t.Int64[k] = int64(le.Uint64(b[8*k:]))
			} else {
				t.Int64[k] = int64(int32(le.Uint32(b[4*k:])))
			}
		}
		return t
	}
	t.Float32 = make([]float32, n)
	for k := range t.Float32 {
		switch e.Dtype {
		case "F64":
			t.Float32[k] = float32(math.Float64frombits(le.Uint64(b[8*k:])))
		case "F32":
			t.Float32[k] = math.Float32frombits(le.Uint32(b[4*k:]))
		case "F16":
			t.Float32[k] = npy.Float16(le.Uint16(b[2*k:]))
		case "BF16": // the upper half of a float32
			t.Float32[k] = math.Float32frombits(uint32(le.Uint16(b[2*k:])) << 16)
		}
	}
	return t
}

// Write writes the tensors, and the metadata if there is any. A tensor is I64 if Int64 is not nil, BF16 if
// BFloat16 is not nil, else F32. The order is the reference library's: I64 before F32 before BF16, then by
// name. If the tensors make no valid file, Write returns an error before it writes anything.
func Write(w io.Writer, tensors map[string]Tensor, metadata map[string]string) error {
	names := slices.SortedFunc(maps.Keys(tensors), func(a, b string) int {
		return cmp.Or(cmp.Compare(tensors[b].dtype(), tensors[a].dtype()), cmp.Compare(a, b))
	})
	header, err := marshalHeader(names, tensors, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, name := range names {
		if err := writeValues(w, tensors[name]); err != nil {
			return err
		}
	}
	return nil
}

// batch is the number of values that are encoded or decoded at a time.
const batch = 1 << 16

func writeValues(w io.Writer, t Tensor) error {
	for _, b := range [][]byte{npy.Bytes(t.Int64), npy.Bytes(t.BFloat16), npy.Bytes(t.Float32)} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// marshalHeader returns the header with its length in front, padded with spaces to a multiple of 8 bytes.
func marshalHeader(names []string, tensors map[string]Tensor, metadata map[string]string) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, 8)) // the length, filled in at the end
	member := func(name string, value any) error {
		key, err := json.Marshal(name)
		if err != nil {
			return err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if b.Len() > 8 {
			b.WriteByte(',')
		} else {
			b.WriteByte('{')
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(text)
		return nil
	}
	if len(metadata) > 0 {
		if err := member(metadataKey, metadata); err != nil {
			return nil, err
		}
	}
	var at int64
	for _, name := range names {
		t := tensors[name]
		n, err := npy.Header{Shape: t.Shape}.Elements()
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		floats := len(t.Float32) + len(t.BFloat16)
		if max(floats, len(t.Int64)) != n || (floats > 0 && len(t.Int64) > 0) ||
			(len(t.Float32) > 0 && len(t.BFloat16) > 0) || name == metadataKey {
			return nil, fmt.Errorf("tensor %q of shape %v with %d floats and %d integers is not written",
				name, t.Shape, floats, len(t.Int64))
		}
		e := entry{Dtype: t.dtype(), Shape: append([]int{}, t.Shape...)}
		length, err := e.bytes()
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		e.Offsets = []int64{at, at + length}
		at += length
		if err := member(name, e); err != nil {
			return nil, err
		}
	}
	if b.Len() == 8 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(b.Len()-8))
	return b.Bytes(), nil
}
