/// Files as mosquitto writes them.
struct MosquittoFile {
    private(set) var bytes: [UInt8]
    /// Where each chunk ends, and the header before them.
    private(set) var ends: [Int]
    private let version: UInt32

    init(version: UInt32) {
        self.version = version
        bytes = [0x00, 0xB5, 0x00] + Array("mosquitto db".utf8) + Self.big(UInt32(0)) + Self.big(version)
        ends = [bytes.count]
        let number: [UInt8] = [9, 0, 0, 0, 0, 0, 0, 0]
        append(1, version < 5 ? [1, 8] + number : number + [1, 8] + [0, 0, 0, 0, 0, 0])
    }

    mutating func append(_ kind: UInt32, _ body: [UInt8]) {
        bytes += (version < 5 ? Self.big(UInt16(kind)) : Self.big(kind)) + Self.big(UInt32(body.count)) + body
        ends.append(bytes.count)
    }

    static func big(_ value: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }

    static func little(_ value: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: value.littleEndian) { Array($0) } }

    /// Behind its length in 16 bits.
    static func text(_ text: String) -> [UInt8] { big(UInt16(text.utf8.count)) + Array(text.utf8) }

    /// What mosquitto 2.0.11 wrote on an x86-64 machine when it was told to end. It had three clients:
    ///
    ///     five    MQTT 5.0, expiry in an hour, subscribed to q/+ with QoS 2, No Local, Retain As Published and identifier 300; was sent q/1
    ///             (QoS 1) and q/2 (QoS 2), answered the second with PUBREC, and went
    ///     old     MQTT 3.1.1, user anna, subscribed to q/# with QoS 1, had gone before
    ///     pub     MQTT 3.1.1, user peter, had published q/3 with QoS 2, packet identifier 33, and not released it
    ///
    /// and one that it forgot, x, which had published q/1 with properties, q/2 with an expiry interval of 1000 s, and a
    /// retained message.
    static let real = decoded(
        """
        00b5006d6f7371756974746f20646200000000000000060000000100000010380000000000000001
        08000000000000000000020000002f38000000000000000000000000000000000000040021000300
        050003835102007075627065746572712f3368616c66000000020000002737000000000000000000
        00000000000000000002000100010000000483510101786b65657069740000000200000027360000
        000000000082cb016b000000000000000300020001000000038351020078712f3274776f00000002
        00000038350000000000000000000000000000000000000300010001000000038351010078712f31
        6f6e65100101030004746578742600016b000176000000060000001caad5016b0000000000000e10
        00020004835100000000000066697665000000030000001835000000000000000001000401030101
        66697665030bac0200000003000000183600000000000000000200040209010166697665030bac02
        000000060000001f0000000000000000ffffffff0002000383510004000000006f6c64616e6e6100
        00000300000013350000000000000000010003010b00016f6c640000000300000013360000000000
        000000020003010b00016f6c6400000006000000200000000000000000ffffffff00000003835100
        05000000007075627065746572000000030000001338000000000000000021000302070000707562
        00000005000000130000012c00040003020c000066697665712f2b00000005000000120000000000
        030003010000006f6c64712f2300000004000000083700000000000000
        """)

    private static func decoded(_ hexadecimal: String) -> [UInt8] {
        var nibbles: [UInt8] = hexadecimal.compactMap { $0.hexDigitValue.map { UInt8($0) } }
        if !nibbles.count.isMultiple(of: 2) { nibbles.removeLast() }
        return stride(from: 0, to: nibbles.count, by: 2).map { nibbles[$0] << 4 | nibbles[$0 + 1] }
    }
}
