import Administration
import BrokerModel
import MQTTCodec
import ServerLoops
import Transports

/// Who a client would be that an administrator asks about, as CONNECT would find it out: by its certificate, where the
/// listener goes by that.
struct FoundClient {
    /// What a listener asks of certificates.
    struct Door {
        let policy: ListenerPolicy
        /// Whom a certificate may name; nil for anybody.
        let knownUsers: (any UserDirectory)?
        let naming: CertificateNaming
        let requiresCertificate: Bool
    }

    var client: AskedClient
    /// As the sources of logins would be told it.
    private(set) var info: ConnectionInfo

    init(userName: EncodedString?, clientIdentifier: EncodedString?, _ info: ConnectionInfo) {
        client = AskedClient(userName: userName, clientIdentifier: clientIdentifier)
        self.info = info
    }

    /// One that stands for nobody in particular, where there is none.
    var clientIdentifier: EncodedString { client.clientIdentifier ?? "client" }

    mutating func add(_ memberships: AccessMemberships, _ attributes: [(name: String, value: String)]) {
        client.memberships.groups += memberships.groups
        client.memberships.roles += memberships.roles
        client.attributes += attributes
    }

    /// The client shows a certificate, whoever has signed it.
    mutating func show(_ certificate: String, to door: Door) {
        guard let identity = PeerIdentity(showing: certificate) else {
            client.objection = "what is given as a certificate is none: a PEM file is expected, or the Base64 that stands in it"
            return
        }
        guard door.requiresCertificate else {
            client.objection = "the listener asks clients for no certificate (require_certificate true)"
            return
        }
        info.certificateCommonName = identity.certificateCommonName
        info.certificateSubject = identity.certificateSubject
        info.certificateClaims = door.naming.claims(of: identity.certificate)
        let claims = info.certificateClaims
        if let objection = identity.certificate?.objection {
            client.objection = "the client's certificate cannot be believed: \(objection)"
            return
        }
        add(claims.memberships, claims.attributes.map { ($0.name, $0.value) })
        takeUserName(door, claims)
        takeIdentifier(door, claims)
    }

    private mutating func takeUserName(_ door: Door, _ claims: CertificateClaims) {
        guard door.policy.userNameSource != .login else { return }
        guard let name = door.policy.userNameSource.name(in: info) else {
            client.objection =
                "the certificate has not the name that the listener asks for: "
                + (claims.objection ?? "it has none that can be a user name")
            return
        }
        if door.policy.requiresPasswordToo, let asked = client.userName, asked != name {
            client.objection = "the certificate is of the user \(name), and CONNECT names \(asked)"
        }
        client.userName = name
        if let users = door.knownUsers, !users.isKnown(name) {
            client.objection = "the certificate is of \(name), whom neither password_file nor dynamic security lets in"
        }
    }

    private mutating func takeIdentifier(_ door: Door, _ claims: CertificateClaims) {
        guard door.policy.takesIdentifierFromCertificate, client.objection == nil else { return }
        guard let name = claims.clientIdentifier.flatMap({ EncodedString($0) }) else {
            client.objection =
                "the certificate has not the name that the listener asks for: "
                + (claims.objection ?? "it has none that can be a Client Identifier")
            return
        }
        if let asked = client.clientIdentifier, asked != name {
            client.objection = "the certificate is for the Client Identifier \(name)"
        }
        client.clientIdentifier = name
    }
}

extension LoginTrialReport {
    /// What the certificate says beside the login.
    mutating func add(_ client: AskedClient) {
        memberships = client.memberships
        attributes += client.attributes
    }
}
