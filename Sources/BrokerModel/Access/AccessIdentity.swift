package import MQTTCodec

/// The identity of a session's client, as far as patterns ask.
package struct AccessIdentity: Sendable {
    package let clientIdentifier: [UInt8]
    /// Empty for a client without one.
    package let userName: [UInt8]
    /// Whether a value holds `+` or `#`: put in place of `%c` or `%u` it could open other clients' topics, so patterns give such a
    /// client nothing.
    package let isDangerous: Bool
    /// What patterns may say that hold `%c` or `%u`: all they do; or no more than that something is denied where the name holds a `/`, with
    /// which it could make its way into topics that are somebody else's.
    package let clientIdentifierPermissions: AccessPermission
    package let userNamePermissions: AccessPermission

    /// - Parameter spansLevels: whether a name that holds a `/` stands for as many levels, also where a pattern grants something.
    package init(clientIdentifier: EncodedString, userName: EncodedString?, spansLevels: Bool) {
        self.clientIdentifier = clientIdentifier.bytes
        self.userName = userName?.bytes ?? []
        func permissions(_ name: [UInt8]) -> AccessPermission {
            spansLevels || !name.contains(UInt8(ascii: "/")) ? [.read, .write, .deny] : .deny
        }
        clientIdentifierPermissions = permissions(self.clientIdentifier)
        userNamePermissions = permissions(self.userName)
        let wildcards = [UInt8(ascii: "+"), UInt8(ascii: "#")]
        isDangerous = (self.clientIdentifier + self.userName).contains { wildcards.contains($0) }
    }
}
