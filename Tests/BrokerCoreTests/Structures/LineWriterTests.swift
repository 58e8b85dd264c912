import MQTTCodec
import Testing

@testable import BrokerCore

@Suite struct LineWriterTests {
    @Test func `a line is what interpolation would make of it`() {
        let names = [0, 1, 15, 16, 127, 128, 129, 255, 256, 257, 1000, 65_535].map { length in
            EncodedString(Array(repeating: UInt8(ascii: "n"), count: length)) ?? ""
        }
        for name in names + ["Zürich 温度"] {
            for number: UInt16 in [0, 1, 9, 10, 99, 100, 1883, 9999, 10_000, 65_535] {
                let line = String.line(room: 40 + LineWriter.room(for: name)) { line in
                    line.write("Client ")
                    line.write(name)
                    line.write(" on ")
                    line.write(number)
                    line.write("é, p")
                    line.write(digit: 5)
                }
                #expect(line == "Client \(name) on \(number)é, p5")
            }
        }
        #expect(LineWriter.room(for: nil) == 0)
    }

    @Test func `what has no room is left out`() {
        let line = String.line(room: 5) { line in
            line.write("four")
            line.write("too much")
            line.write(digit: 1)
            line.write(digit: 2)
            line.write(UInt16(3))
        }
        #expect(line == "four1")
    }
}
