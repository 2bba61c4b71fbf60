package table

import (
	"encoding/binary"
	"math"
)

// metadata walks a structure of Thrift's compact protocol, in which Parquet writes its footer and the headers
// of its pages, without knowing the fields. The Parquet library allocates what lengths in it claim. To walk
// it first shows that each length is covered by bytes that are there.
// (https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md)
type metadata struct {
	data []byte
	at   int
}

var errMetadata = errDamaged("its Parquet metadata is damaged")

// maxNesting bounds structures within structures. Parquet's own nest about six deep.
const maxNesting = 32

// The types of the compact protocol. A field that is a boolean has its value in the type. Parquet has no
// maps.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftStruct = 12
)

// structure walks one structure: fields, each a byte with its type and the step from the last field's number,
// up to a zero byte.
func (m *metadata) structure(depth int) error {
	if depth > maxNesting {
		return errMetadata
	}
	for {
		b, err := m.byte()
		if err != nil || b == 0 {
			return err
		}
		if b>>4 == 0 { // the number itself follows
			if _, err := m.uvarint(); err != nil {
				return err
			}
		}
		if kind := b & 0xf; kind != thriftTrue && kind != thriftFalse {
			if err := m.value(kind, depth); err != nil {
				return err
			}
		}
	}
}

// value walks the value of a field that is no boolean, or an element of a list.
func (m *metadata) value(kind byte, depth int) error {
	switch kind {
	case thriftTrue, thriftFalse, thriftByte:
		return m.skip(1)
	case thriftI16, thriftI32, thriftI64:
		_, err := m.uvarint()
		return err
	case thriftDouble:
		return m.skip(8)
	case thriftBinary:
		n, err := m.count()
		if err != nil {
			return err
		}
		return m.skip(n)
	case thriftList, thriftSet:
		return m.list(depth + 1)
	case thriftStruct:
		return m.structure(depth + 1)
	}
	return errMetadata
}

// list walks a list, whose elements take at least a byte each.
func (m *metadata) list(depth int) error {
	b, err := m.byte()
	if err != nil {
		return err
	}
	n := int(b >> 4)
	if n == 0xf {
		if n, err = m.count(); err != nil {
			return err
		}
	}
	if n > len(m.data)-m.at || depth > maxNesting {
		return errMetadata
	}
	for range n {
		if err := m.value(b&0xf, depth); err != nil {
			return err
		}
	}
	return nil
}

func (m *metadata) byte() (byte, error) {
	if m.at >= len(m.data) {
		return 0, errMetadata
	}
	m.at++
	return m.data[m.at-1], nil
}

func (m *metadata) skip(n int) error {
	if n > len(m.data)-m.at {
		return errMetadata
	}
	m.at += n
	return nil
}

func (m *metadata) uvarint() (uint64, error) {
	v, n := binary.Uvarint(m.data[m.at:])
	if n <= 0 {
		return 0, errMetadata
	}
	m.at += n
	return v, nil
}

// count reads a length, of 31 bits.
func (m *metadata) count() (int, error) {
	v, err := m.uvarint()
	if err != nil || v > math.MaxInt32 {
		return 0, errMetadata
	}
	return int(v), nil
}
