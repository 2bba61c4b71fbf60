// Package foreign tells kinds of files by their first bytes. A reader can so refuse a file that it cannot
// read by the name of its kind.
package foreign

import (
	"bytes"
	"encoding/binary"
	"io"

	"weft/internal/refusal"
)

// Kind is a kind of file.
type Kind string

// The kinds, as refusals name them.
const (
	Unknown  Kind = "" // no known kind, such as text
	Array    Kind = "a NumPy array (.npy)"
	Archive  Kind = "an archive of NumPy arrays (.npz)"
	Gzip     Kind = "a gzip file"
	Zstd     Kind = "a Zstandard file"
	Zip      Kind = "a zip archive"
	Parquet  Kind = "a Parquet file"
	HDF5     Kind = "an HDF5 file"
	Torch    Kind = "a file of torch.save"
	OldTorch Kind = "a file of torch.save before PyTorch 1.6, which is not read"
	Pickle   Kind = "a Python pickle, which is never read"
	DGLGraph Kind = "a graph saved by DGL, which import dgl reads"
	DGLData  Kind = "tensors saved by DGL, which import dgl reads beside their graph"
)

// Conversion says where to find the lines of Python that convert a file.
const Conversion = `docs/formats.md, "Files of other programs", has the lines that convert it`

// magics are the first bytes of the kinds. The first match counts.
var magics = []struct {
	bytes string
	kind  Kind
}{
	{"\x93NUMPY", Array},
	{"\x1f\x8b", Gzip},
	{"\x28\xb5\x2f\xfd", Zstd},
	{"PAR1", Parquet},
	{"\x89HDF\r\n\x1a\n", HDF5},
	{"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", OldTorch},
	{"\x3f\xa1\xb4\x46\xf0\x4f\x2e\xdd", DGLGraph},
	{"\x3f\x44\xa2\x3f\xbe\x9f\x5a\xdd", DGLData},
}

// ByteOrderMark begins some programs' text files.
const ByteOrderMark = "\ufeff"

// Head is the number of first bytes of a file that Recognize looks at; a shorter file has fewer.
const Head = 512

// Recognize returns the kind of a file that starts so.
func Recognize(start []byte) Kind {
	for _, m := range magics {
		if bytes.HasPrefix(start, []byte(m.bytes)) {
			return m.kind
		}
	}
	// pzstd begins a Zstandard file with a frame that readers skip.
	if len(start) > 4 && start[0]&0xf0 == 0x50 && bytes.HasPrefix(start[1:], []byte("\x2a\x4d\x18")) {
		return Zstd
	}
	// A pickle names its protocol, at least 2, and then has an instruction. Zeros after the protocol are a
	// number.
	if len(start) > 2 && start[0] == 0x80 && start[1] >= 2 && start[1] <= 5 && start[2] != 0 {
		return Pickle
	}
	return zipKind(start)
}

// Of returns the kind of a file. A file that cannot be read is Unknown: its reader gets the error again.
func Of(file io.ReaderAt) Kind {
	start := make([]byte, Head)
	n, _ := file.ReadAt(start, 0)
	return Recognize(start[:n])
}

// zipKind tells zip archives apart by the name of their first entry: torch.save writes a pickle first,
// numpy.savez an array.
func zipKind(start []byte) Kind {
	const fixed = 30 // bytes of an entry's header before its name; 26 is the place of the name's length
	if len(start) < fixed || !bytes.HasPrefix(start, []byte("PK\x03\x04")) {
		return Unknown
	}
	name := start[fixed:]
	name = name[:min(len(name), int(binary.LittleEndian.Uint16(start[26:])))]
	switch {
	case bytes.HasSuffix(name, []byte("data.pkl")):
		return Torch
	case bytes.HasSuffix(name, []byte(".npy")):
		return Archive
	}
	return Zip
}

// Compressed reports whether the first bytes are those of compressed text.
func (k Kind) Compressed() bool { return k == Gzip || k == Zstd }

// Refuse returns the refusal of a file of that kind. The way out is a conversion, or the file to give
// instead.
func (k Kind) Refuse(path, wanted string) error {
	switch k {
	case Torch:
		return refusal.Errorf("%s: %s; weft import pyg reads one of a graph, and %s", path, k, Conversion)
	case OldTorch:
		return refusal.Errorf("%s: %s; load and save it again with a later one", path, k)
	case Pickle:
		return refusal.Errorf("%s: %s; %s", path, k, Conversion)
	case DGLGraph, DGLData:
		return refusal.Errorf("%s: %s; give %s", path, k, wanted)
	}
	return refusal.Errorf("%s: is %s; give %s", path, k, wanted)
}
