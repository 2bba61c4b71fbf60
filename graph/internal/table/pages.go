package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"weft/internal/memory"
)

// The Parquet library believes what pages say about their size, the number of their values and the length of
// runs. The check below goes over the pages of a column before the library does. It shows that all of it is
// bounded by the rows of the table, which the size of the file bounds.

const (
	maxPageHeader = 1 << 16
	// maxExpansion is what deflate reaches. Pages of equal values shrink more with zstd, which is
	// allowed up to freeExpansion bytes.
	maxExpansion  = 1032
	freeExpansion = 16 << 20
	// maxTextExpansion is the same for text: text that repeats has dictionaries.
	maxTextExpansion = 64
	// runSlack allows for the values that fill up the last group of a page.
	runSlack = 1 << 10
)

var (
	errPage = errDamaged("a page is damaged")
	errLong = fmt.Errorf("a text of more than %d bytes: shorten it, or leave the column out of the file",
		longest)
)

// checkPages goes over the pages of one column in a row group, which begins behind a row. It returns how much
// memory the reading of the column takes.
func checkPages(f io.ReaderAt, size int64, column *format.ColumnMetaData, optional bool,
	behind, rows int64,
) (need int64, err error) {
	at := column.DataPageOffset
	if column.DictionaryPageOffset != 0 {
		at = column.DictionaryPageOffset
	}
	if at < 0 || column.TotalCompressedSize < 0 || column.TotalCompressedSize > size ||
		at > size-column.TotalCompressedSize {
		return 0, errDamaged("its data lies outside the file")
	}
	end := at + column.TotalCompressedSize
	header := make([]byte, min(end-at, maxPageHeader))
	row := behind
	for at < end {
		header = header[:min(end-at, maxPageHeader)]
		if _, err := f.ReadAt(header, at); err != nil {
			return 0, err
		}
		p, length, err := readPageHeader(header)
		if err != nil {
			return 0, err
		}
		at += int64(length)
		stored, all, values := int64(p.CompressedPageSize), int64(p.UncompressedPageSize), valuesOf(p)
		if stored < 0 || stored > end-at || all < 0 {
			return 0, errPage
		}
		if column.Type == format.ByteArray {
			first, last := row+1, row+values
			if p.Type == format.DictionaryPage {
				first, last = behind+1, behind+rows
			}
			const prefix = 4 // bytes before a text, which give its length
			switch {
			case all > runSlack+rows+values*(prefix+longest):
				return 0, fmt.Errorf("rows %d to %d: %w", first, last, errLong)
			case all > freeExpansion+maxTextExpansion*stored:
				return 0, fmt.Errorf("rows %d to %d: %d bytes of text shrink to %d: write them with a "+
					"dictionary, or in smaller pages", first, last, all, stored)
			}
		}
		if all > freeExpansion+maxExpansion*stored {
			return 0, errPage
		}
		if p.Type != format.DictionaryPage {
			row += values
		}
		const readers = 2 // this one and the library; each has the page as it is stored and as it is read
		need = max(need, readers*(all+stored))
		if err := memory.Need(need); err != nil {
			return 0, err
		}
		body := make([]byte, stored)
		if _, err := f.ReadAt(body, at); err != nil {
			return 0, err
		}
		at += stored
		if err := checkPage(p, body, column.Codec, optional, rows); err != nil {
			return 0, err
		}
	}
	return need, nil
}

// valuesOf is how many values a page claims.
func valuesOf(p *format.PageHeader) int64 {
	switch p.Type {
	case format.DictionaryPage:
		return int64(p.DictionaryPageHeader.V.NumValues)
	case format.DataPage:
		return int64(p.DataPageHeader.V.NumValues)
	}
	return int64(p.DataPageHeaderV2.V.NumValues)
}

// readPageHeader decodes the header at the start of data and returns its length.
func readPageHeader(data []byte) (*format.PageHeader, int, error) {
	m := metadata{data: data}
	if err := m.structure(0); err != nil {
		return nil, 0, err
	}
	r := new(thrift.CompactProtocol).NewReaderFromBytes(data[:m.at])
	header := new(format.PageHeader)
	if err := thrift.NewDecoder(r).Decode(header); err != nil || r.BytesRead() != m.at {
		return nil, 0, errMetadata
	}
	return header, m.at, nil
}

// checkPage compares a page's claims with its bytes.
func checkPage(p *format.PageHeader, body []byte, codec format.CompressionCodec, optional bool,
	rows int64,
) error {
	size := int(p.UncompressedPageSize)
	switch p.Type {
	case format.DictionaryPage:
		h := p.DictionaryPageHeader.V
		if h.Encoding != format.Plain && h.Encoding != plainDictionary {
			return errEncoding(h.Encoding)
		}
		if h.NumValues < 0 || int(h.NumValues) > size {
			return errPage
		}
		_, err := expand(codec, body, size)
		return err
	case format.DataPage:
		h := p.DataPageHeader.V
		if h.NumValues < 0 || int64(h.NumValues) > rows {
			return errPage
		}
		data, err := expand(codec, body, size)
		if err != nil {
			return err
		}
		if optional {
			if h.DefinitionLevelEncoding != format.RLE {
				return errEncoding(h.DefinitionLevelEncoding)
			}
			if len(data) < 4 || int64(binary.LittleEndian.Uint32(data)) > int64(len(data)-4) {
				return errPage
			}
			levels := data[4 : 4+binary.LittleEndian.Uint32(data)]
			if err := checkRuns(levels, 1, int(h.NumValues)); err != nil {
				return err
			}
			data = data[4+len(levels):]
		}
		return checkValues(h.Encoding, data, int(h.NumValues))
	case format.DataPageV2:
		h := p.DataPageHeaderV2.V
		repetition, definition := int(h.RepetitionLevelsByteLength), int(h.DefinitionLevelsByteLength)
		if h.NumValues < 0 || int64(h.NumValues) > rows || repetition < 0 || definition < 0 ||
			repetition+definition > min(len(body), size) {
			return errPage
		}
		levels, data := body[repetition:repetition+definition], body[repetition+definition:]
		if err := checkRuns(levels, 1, int(h.NumValues)); err != nil {
			return err
		}
		size -= repetition + definition
		if h.IsCompressed.Valid && !h.IsCompressed.V {
			codec = format.Uncompressed
		}
		data, err := expand(codec, data, size)
		if err != nil {
			return err
		}
		return checkValues(h.Encoding, data, int(h.NumValues))
	}
	return errPage
}

// plainDictionary is the name, in files of Parquet 1.0, for both the dictionary and the pages that refer to
// it.
const plainDictionary = format.PlainDictionary //nolint:staticcheck // deprecated for writers; old files have it

func errEncoding(e format.Encoding) error {
	return fmt.Errorf("encoding %v is not read: write it plain, with a dictionary or delta-packed", e)
}

// checkValues compares the values of a page, in their encoding, with their number.
func checkValues(encoding format.Encoding, data []byte, values int) error {
	if len(data) == 0 {
		return nil // all values are null
	}
	switch encoding {
	case format.Plain:
		return nil
	case plainDictionary, format.RLEDictionary:
		return checkRuns(data[1:], int(data[0]), values)
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray: // the second: packed lengths, then the bytes
		// block size, miniblocks per block, number of values
		var header [3]uint64
		for i := range header {
			v, n := binary.Uvarint(data)
			if n <= 0 {
				return errPage
			}
			header[i], data = v, data[n:]
		}
		const maxBlock = 1 << 16 // writers take 128 or 1024
		if header[0] > maxBlock || header[1] > maxBlock || header[2] > uint64(values) {
			return errPage
		}
		return nil
	}
	return errEncoding(encoding)
}

// checkRuns goes over runs of values of the given width in bits: repeated values, and groups of eight packed
// values.
func checkRuns(data []byte, width, values int) error {
	if width > 32 {
		return errPage
	}
	total := 0
	for len(data) > 0 {
		head, n := binary.Uvarint(data)
		if n <= 0 || head>>1 > uint64(values+runSlack) {
			return errPage
		}
		count, bytes := int(head>>1), (width+7)/8
		if head&1 == 1 {
			bytes = count * width
			count *= 8
		}
		total += count
		if total > values+runSlack || bytes > len(data)-n {
			return errPage
		}
		data = data[n+bytes:]
	}
	return nil
}

// expand decompresses a page, which must give exactly size bytes. The memory grows with what comes out.
func expand(codec format.CompressionCodec, body []byte, size int) ([]byte, error) {
	var r io.Reader
	switch codec {
	case format.Uncompressed:
		if len(body) != size {
			return nil, errPage
		}
		return body, nil
	case format.Snappy:
		if n, err := snappy.DecodedLen(body); err != nil || n != size {
			return nil, errPage
		}
		data, err := snappy.Decode(nil, body)
		if err != nil {
			return nil, errPage
		}
		return data, nil
	case format.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, errPage
		}
		r = z
	case format.Zstd:
		z, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	default:
		return nil, fmt.Errorf("compression %v is not read: write it with snappy, gzip, zstd or none", codec)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, errPage
	}
	if _, more := io.ReadFull(r, make([]byte, 1)); !errors.Is(more, io.EOF) {
		return nil, errPage
	}
	return data, nil
}
