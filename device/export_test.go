package device

import "cmp"

// CloseCards closes all cards, so that the next Open opens its card anew.
func CloseCards() (err error) {
	for _, c := range openCards {
		err = cmp.Or(err, c.close())
	}
	clear(openCards)
	return err
}

// Mixed returns a device of a card with the streams and events of another, and the kernels of a third.
func Mixed(base, streams, kernels *Device) *Device {
	return &Device{
		card:   &card{number: base.number, driver: base.driver, functions: kernels.functions},
		stream: streams.stream, copyQueues: streams.copyQueues,
	}
}
