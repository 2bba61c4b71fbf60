package cli

import (
	"testing"

	"weft/internal/assert"
)

// TestBytesPerSecond: a rate is in bits, but for one whose unit is a capital B alone.
func TestBytesPerSecond(t *testing.T) {
	for text, want := range map[string]float64{
		"100mbit": 12.5e6, "100Mbit/s": 12.5e6, "8 bps": 1, "10gbps": 1.25e9, "25Gb/s": 3.125e9,
		"10GBit/s": 1.25e9, "10GBit": 1.25e9, "10GBIT/S": 1.25e9, "1.5tbit": 187.5e9, "80k": 0,
		"12.5GB/s": 12.5e9, "12.5gB/s": 12.5e9, "100MBps": 100e6, "7 kB/s": 7e3, "3B/s": 3,
		"7bit": 0, "1000TB/s": 1e15, "1001TB/s": 0, "8001tbit": 0,
		"0gbit": 0, "-1gbit": 0, "10GB": 0, "10Gibit": 0, "10gbps.json": 0, "": 0,
	} {
		rate, is := BytesPerSecond(text)
		if is != (want > 0) || is && rate != want {
			assert.Equal(t, want, rate, "%q", text)
		}
	}
}
