/// The places where properties stand: each packet that has some, and the will inside CONNECT.
struct PropertyPlace: OptionSet {
    let rawValue: UInt16

    static let connect = PropertyPlace(rawValue: 1 << 0)
    static let will = PropertyPlace(rawValue: 1 << 1)
    static let connack = PropertyPlace(rawValue: 1 << 2)
    static let publish = PropertyPlace(rawValue: 1 << 3)
    /// PUBACK, PUBREC, PUBREL and PUBCOMP, which are alike.
    static let acknowledgement = PropertyPlace(rawValue: 1 << 4)
    static let subscribe = PropertyPlace(rawValue: 1 << 5)
    static let suback = PropertyPlace(rawValue: 1 << 6)
    static let unsubscribe = PropertyPlace(rawValue: 1 << 7)
    static let unsuback = PropertyPlace(rawValue: 1 << 8)
    static let disconnect = PropertyPlace(rawValue: 1 << 9)
    static let auth = PropertyPlace(rawValue: 1 << 10)

    static let all: PropertyPlace = [
        .connect, .will, .connack, .publish, .acknowledgement, .subscribe, .suback, .unsubscribe, .unsuback, .disconnect, .auth,
    ]
}
