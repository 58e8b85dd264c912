import MQTTCodec

/// Ill-formed text in every field that holds text.
extension GeneratedInputs {
    /// A place for a text in a packet; `?` stands for it.
    private struct TextField {
        let versions: [ProtocolVersion]
        let stage: InputCase.Stage
        let text: String
        let name: String
    }

    private static let fields: [TextField] = [
        TextField(versions: [.v311, .v5], stage: .fresh, text: "10 { 'MQTT' $ 02 0000 ~ ? }", name: "Client Identifier"),
        TextField(versions: [.v311, .v5], stage: .fresh, text: "10 { 'MQTT' $ 06 0000 ~ 'a' ~ ? 'm' }", name: "Will Topic"),
        TextField(versions: [.v311, .v5], stage: .fresh, text: "10 { 'MQTT' $ 82 0000 ~ 'a' ? }", name: "User Name"),
        TextField(versions: [.v31], stage: .fresh, text: "10 { 'MQIsdp' 03 02 0000 ? }", name: "Client Identifier"),
        TextField(versions: [.v5], stage: .fresh, text: "10 { 'MQTT' 05 02 0000 { 26 ? 'v' } 'a' }", name: "User Property's name"),
        TextField(versions: [.v5], stage: .fresh, text: "10 { 'MQTT' 05 02 0000 { 26 'k' ? } 'a' }", name: "User Property's value"),
        TextField(versions: [.v5], stage: .fresh, text: "10 { 'MQTT' 05 02 0000 { 15 ? } 'a' }", name: "Authentication Method"),
        TextField(
            versions: [.v5], stage: .fresh, text: "10 { 'MQTT' 05 06 0000 ~ 'a' { 03 ? } 'w' 'm' }", name: "Will's Content Type"),
        TextField(
            versions: [.v5], stage: .fresh, text: "10 { 'MQTT' 05 06 0000 ~ 'a' { 26 'k' ? } 'w' 'm' }",
            name: "Will's User Property"),
        TextField(versions: [.v31, .v311, .v5], stage: .connected, text: "30 { ? ~ }", name: "Topic Name"),
        TextField(versions: [.v311, .v5], stage: .connected, text: "34 { ? 0001 ~ }", name: "Topic Name of QoS 2"),
        TextField(versions: [.v31, .v311, .v5], stage: .connected, text: "82 { 0001 ~ ? 00 }", name: "Topic Filter"),
        TextField(versions: [.v311, .v5], stage: .connected, text: "82 { 0001 ~ 't' 00 ? 00 }", name: "second Topic Filter"),
        TextField(versions: [.v31, .v311, .v5], stage: .connected, text: "A2 { 0001 ~ ? }", name: "UNSUBSCRIBE's Topic Filter"),
        TextField(versions: [.v5], stage: .connected, text: "30 { 't' { 03 ? } }", name: "Content Type"),
        TextField(versions: [.v5], stage: .connected, text: "30 { 't' { 08 ? } }", name: "Response Topic"),
        TextField(versions: [.v5], stage: .connected, text: "30 { 't' { 26 ? 'v' } }", name: "User Property's name"),
        TextField(versions: [.v5], stage: .connected, text: "30 { 't' { 26 'k' ? } }", name: "User Property's value"),
        TextField(versions: [.v5], stage: .connected, text: "40 { 0001 00 { 1F ? } }", name: "PUBACK's Reason String"),
        TextField(versions: [.v5], stage: .connected, text: "82 { 0001 { 26 'k' ? } 't' 00 }", name: "SUBSCRIBE's User Property"),
        TextField(versions: [.v5], stage: .connected, text: "A2 { 0001 { 26 ? 'v' } 't' }", name: "UNSUBSCRIBE's User Property"),
        TextField(versions: [.v5], stage: .connected, text: "E0 { 00 { 1F ? } }", name: "DISCONNECT's Reason String"),
        TextField(versions: [.v5], stage: .connected, text: "F0 { 19 { 15 ? } }", name: "AUTH's Authentication Method"),
    ]

    /// Bytes that are no UTF-8, or hold U+0000: overlong forms, surrogates, beyond U+10FFFF, cut sequences, stray
    /// bytes.
    private static let illFormed = [
        "00", "610062", "80", "61BF", "C080", "C1BF", "C3", "C328", "E08080", "E282", "E228A1", "EDA080", "EDBFBF", "EDA0BDEDB8B8",
        "F0808080", "F09F98", "F4908080", "F5808080", "FE", "FF",
    ]

    static var texts: [InputCase] {
        fields.flatMap { field in
            illFormed.flatMap { text in
                field.versions.map { version in
                    let words = field.text.split(separator: " ").map { $0 == "?" ? "( \(text) )" : String($0) }
                    let frame = Frame(words.joined(separator: " "), version).bytes
                    let connack: InputCase.Answer = version == .v5 ? .connack(0x81) : .close
                    return InputCase(
                        version, field.stage, frame, field.stage == .fresh ? connack : .disconnect(0x81), "\(field.name) \(text)")
                }
            }
        }
    }
}
