internal import Cryptography

/// The client's first message: `n,,n=user,r=nonce`.
struct ScramClientFirst {
    /// The part before the bare message, which the final message repeats: `n,,` or `y,,` or `n,a=name,`.
    let header: String
    /// `n=user,r=nonce` and perhaps extensions.
    let bare: String
    /// Prepared, as the name is.
    let authorizationIdentity: [UInt8]?
    /// As SASLprep has it; what is signed is `bare`, as it came.
    let user: [UInt8]
    let nonce: String

    /// Reads it; nil for what is not one, holds a name that SASLprep forbids, or asks for channel binding (`p=`) or an extension that must be understood (`m=`).
    init?(_ data: [UInt8]) {
        guard data.count <= Limits.scramMessageBytesMax, let text = String(validating: data, as: UTF8.self) else { return nil }
        let parts = ScramAttribute.parts(of: text[...], maxSplits: 2)
        // "n": the client has no channel binding; "y": it has, and thinks that we have none.
        guard parts.count == 3, parts[0] == "n" || parts[0] == "y" else { return nil }
        header = "\(parts[0]),\(parts[1]),"
        bare = String(parts[2])
        if parts[1].isEmpty {
            authorizationIdentity = nil
        } else {
            guard parts[1].hasPrefix("a="), let name = Self.preparedName(parts[1].dropFirst(2)) else { return nil }
            authorizationIdentity = name
        }
        let attributes = ScramAttribute.parts(of: parts[2])
        guard attributes.count >= 2, attributes[0].hasPrefix("n="), let user = Self.preparedName(attributes[0].dropFirst(2)),
            attributes[1].hasPrefix("r="), ScramAttribute.isNonce(attributes[1].dropFirst(2)),
            attributes.dropFirst(2).allSatisfy(ScramAttribute.isExtension)
        else { return nil }
        self.user = user
        nonce = String(attributes[1].dropFirst(2))
    }

    private static func preparedName(_ text: Substring) -> [UInt8]? {
        ScramAttribute.name(text).flatMap { SASLprep.prepare($0, for: .asking) }
    }
}
