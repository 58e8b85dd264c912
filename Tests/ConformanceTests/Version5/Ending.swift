import MQTTCodec
import MartletTestKit

/// What became of a connection whose client sent something.
struct Ending: Equatable, CustomStringConvertible {
    /// The code of DISCONNECT, or of CONNACK where the client was not connected yet; nil if neither came.
    var reason: ReasonCode?
    var isClosed: Bool

    static let open = Ending(isClosed: false)
    static let silent = Ending(isClosed: true)
    static func closed(_ reason: ReasonCode) -> Ending { Ending(reason: reason, isClosed: true) }

    var description: String {
        "\(isClosed ? "closed" : "open")\(reason.map { " with 0x" + String($0.rawValue, radix: 16) } ?? "")"
    }
}

extension SimulatedBroker {
    /// Connects a 5.0 client, which sends these bytes.
    func ending(after bytes: [UInt8]) -> Ending {
        let client = connected("ending")
        client.send(bytes)
        return client.ending
    }

    /// Opens a connection whose first bytes these are.
    func ending(afterFirst bytes: [UInt8]) -> Ending {
        let connection = open()
        connection.send(bytes)
        settle()
        for case .connack(let packet) in connection.takePackets() {
            return Ending(reason: packet.reasonCode, isClosed: connection.isClosed)
        }
        return Ending(isClosed: connection.isClosed)
    }

    /// Connects a 5.0 client with a clean session and these properties in its CONNECT.
    func connected(_ identifier: EncodedString, expiry: UInt32? = nil, _ change: (inout Properties) -> Void) -> TestClient {
        let client = client(identifier)
        client.connect(expiry: expiry, properties: .having(change))
        return client
    }
}

extension TestClient {
    /// How the connection now or last used ended, as DISCONNECT tells it.
    var ending: Ending { Ending(reason: disconnectReason, isClosed: connection?.isClosed ?? true) }
}
