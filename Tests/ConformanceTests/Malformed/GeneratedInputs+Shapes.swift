import MQTTCodec

/// Inputs that are made from well-formed packets by breaking them in every place.
enum GeneratedInputs {
    /// Each packet type with each value of the fixed header's flags that it must not have.
    static var flags: [InputCase] {
        PacketShape.all.filter { $0.type != .publish }.flatMap { shape in
            (UInt8(0)..<16).filter { $0 != shape.frame[0] & 0x0F }.map { flags in
                let frame = [shape.frame[0] & 0xF0 | flags] + shape.frame[1...]
                return InputCase(shape.version, shape.stage, frame, shape.refusal(0x81), "\(shape.type.name) with flags \(flags)")
            }
        }
    }

    /// Each packet with its body cut at each place, and a remaining length that says so.
    static var truncated: [InputCase] {
        PacketShape.all.flatMap { shape in
            shape.body.indices.filter { !shape.legalCuts.contains($0) }.map { count in
                let frame = Frame(first: shape.frame[0], body: Array(shape.body.prefix(count))).bytes
                let name = "\(shape.type.name) cut to \(count) bytes"
                // Before the level is known nobody can tell which CONNACK the client would understand.
                if shape.type == .connect, count < 7 { return InputCase(shape.version, .fresh, frame, .close, name) }
                let code: UInt8 = shape.errorCuts.contains(count) ? 0x82 : 0x81
                return InputCase(shape.version, shape.stage, frame, shape.refusal(code), name)
            }
        }
    }

    /// Each packet that does not end with a payload, with a byte too many.
    static var overlong: [InputCase] {
        PacketShape.all.filter { $0.type != .publish }.flatMap { shape in
            [UInt8(0), 0x26, 0xFF].map { byte in
                let frame = Frame(first: shape.frame[0], body: shape.body + [byte]).bytes
                return InputCase(
                    shape.version, shape.stage, frame, shape.refusal(0x81), "\(shape.type.name) and the byte \(byte)")
            }
        }
    }

    /// Each packet but CONNECT before any CONNECT, whole and malformed.
    static var beforeConnect: [InputCase] {
        PacketShape.all.filter { $0.type != .connect }.flatMap { shape in
            [
                InputCase(shape.version, .fresh, shape.frame, .close, "\(shape.type.name) before CONNECT"),
                InputCase(shape.version, .fresh, [shape.frame[0], 0], .close, "\(shape.type.name) without body before CONNECT"),
            ]
        }
    }

    /// Each packet with a remaining length of five bytes.
    static var longLengths: [InputCase] {
        PacketShape.all.map { shape in
            let frame = [shape.frame[0], UInt8(shape.body.count) | 0x80, 0x80, 0x80, 0x80, 0] + shape.body
            let answer = shape.type == .connect ? .close : InputCase.Answer.disconnect(0x81)
            return InputCase(shape.version, shape.stage, frame, answer, "\(shape.type.name) with five bytes of remaining length")
        }
    }
}
