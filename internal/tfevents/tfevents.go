// Package tfevents writes event files that TensorBoard reads: scalars by tag and step. The command train
// writes them for --tensorboard.
package tfevents

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of tensorflow.Event, of its Summary and of that's Value (tensorboard/compat/proto).
const (
	eventWallTime, eventStep, eventFileVersion, eventSummary = 1, 2, 3, 5
	summaryValue                                             = 1
	valueTag, valueSimple                                    = 1, 2
)

// Prefix begins the name of an event file.
const Prefix = "events.out.tfevents."

// Writer writes one event file.
type Writer struct{ file *os.File }

// Scalar is a value with its tag. Slashes in a tag group it.
type Scalar struct {
	Tag   string
	Value float64 // written as float32; NaN stays
}

// New begins an event file in a folder, which it makes if needed. A folder may have several files:
// TensorBoard reads them as one run.
func New(folder string, now time.Time) (*Writer, error) {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	name := fmt.Sprintf(Prefix+"%010d.%s.%d.weft", now.Unix(), host, os.Getpid())
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	w := &Writer{file}
	version := protowire.AppendString(protowire.AppendTag(at(now), eventFileVersion, protowire.BytesType),
		"brain.Event:2")
	if err := w.record(version); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return w, nil
}

// at begins an event of a time.
func at(now time.Time) []byte {
	seconds := float64(now.UnixNano()) / 1e9
	return protowire.AppendFixed64(protowire.AppendTag(nil, eventWallTime, protowire.Fixed64Type),
		math.Float64bits(seconds))
}

// Write appends the scalars of a step.
func (w *Writer) Write(now time.Time, step int, scalars ...Scalar) error {
	var summary []byte
	for _, s := range scalars {
		value := protowire.AppendString(protowire.AppendTag(nil, valueTag, protowire.BytesType), s.Tag)
		value = protowire.AppendFixed32(protowire.AppendTag(value, valueSimple, protowire.Fixed32Type),
			math.Float32bits(float32(s.Value)))
		summary = protowire.AppendBytes(protowire.AppendTag(summary, summaryValue, protowire.BytesType),
			value)
	}
	event := protowire.AppendVarint(protowire.AppendTag(at(now), eventStep, protowire.VarintType),
		uint64(step))
	return w.record(protowire.AppendBytes(protowire.AppendTag(event, eventSummary, protowire.BytesType),
		summary))
}

// record appends a TFRecord in one write: the length, its checksum, the data and its checksum.
func (w *Writer) record(data []byte) error {
	framed := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	framed = binary.LittleEndian.AppendUint32(framed, masked(framed))
	framed = append(framed, data...)
	framed = binary.LittleEndian.AppendUint32(framed, masked(data))
	_, err := w.file.Write(framed)
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is TFRecord's checksum: CRC-32C, rotated by 15 bits and shifted by a constant.
func masked(data []byte) uint32 {
	sum := crc32.Checksum(data, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

// Close ends the file.
func (w *Writer) Close() error { return w.file.Close() }
