internal import BrokerModel
internal import Bytes
internal import Cryptography
internal import MQTTCodec

/// One run of SCRAM, the server's side.
///
///     awaitingFirst ──client-first──► awaitingFinal ──client-final──► finished
///           └─────────────────────────────┴── anything wrong ────────────▲
final class ScramExchange: EnhancedExchange {
    private enum State {
        /// The client has not said who it is; it may do so in CONNECT, or in its answer to an empty challenge.
        case awaitingFirst
        /// The salt is sent, and the proof awaited.
        case awaitingFinal(ScramClientFirst, ScramCredentials, nonce: String, serverFirst: String)
        /// Accepted or refused; nothing more may come.
        case finished
    }

    private let users: ScramFile
    private let nonce: String
    private var state = State.awaitingFirst

    /// - Parameter nonce: printable ASCII without a comma, this exchange's own, that nobody can know before.
    init(users: ScramFile, nonce: String) {
        self.users = users
        self.nonce = nonce
    }

    func begin(data: [UInt8]?) -> AuthenticationOutcome {
        // Without initial data the client expects to be asked. [RFC 4422, section 5]
        guard let data else { return .challenge(data: []) }
        return proceed(data: data)
    }

    func proceed(data: [UInt8]?) -> AuthenticationOutcome {
        switch state {
        case .awaitingFirst: return receivedFirst(data ?? [])
        case .awaitingFinal(let first, let credentials, let nonce, let serverFirst):
            return receivedFinal(data ?? [], first, credentials, nonce, serverFirst)
        case .finished: return .refused(.protocolError)
        }
    }

    private func receivedFirst(_ data: [UInt8]) -> AuthenticationOutcome {
        guard let first = ScramClientFirst(data) else { return refuse(.protocolError) }
        // Nobody may act for another here.
        if let authorized = first.authorizationIdentity, authorized != first.user { return refuse(.notAuthorized) }
        let credentials = users.credentials(of: first.user)
        let nonce = first.nonce + self.nonce
        let serverFirst = "r=\(nonce),s=\(Base64.encode(credentials.salt)),i=\(credentials.iterations)"
        state = .awaitingFinal(first, credentials, nonce: nonce, serverFirst: serverFirst)
        return .challenge(data: Array(serverFirst.utf8))
    }

    private func receivedFinal(
        _ data: [UInt8], _ first: ScramClientFirst, _ credentials: ScramCredentials, _ nonce: String, _ serverFirst: String
    ) -> AuthenticationOutcome {
        guard let final = ScramClientFinal(data), final.nonce == nonce, final.channelBinding == Array(first.header.utf8) else {
            return refuse(.protocolError)
        }
        let message = Array("\(first.bare),\(serverFirst),\(final.withoutProof)".utf8)
        let signature = HashFunction.sha256.authenticationCode(message, key: credentials.storedKey)
        let clientKey = zip(final.proof, signature).map { $0 ^ $1 }
        guard ConstantTime.equal(HashFunction.sha256.digest(clientKey), credentials.storedKey) else {
            return refuse(.notAuthorized, because: .wrongPassword)
        }
        state = .finished
        let verifier = HashFunction.sha256.authenticationCode(message, key: credentials.serverKey)
        return .accepted(userName: EncodedString(first.user), data: Array("v=\(Base64.encode(verifier))".utf8))
    }

    private func refuse(_ reason: ReasonCode, because failure: LoginFailure = .unspecified) -> AuthenticationOutcome {
        state = .finished
        return .refused(reason, because: failure)
    }
}
