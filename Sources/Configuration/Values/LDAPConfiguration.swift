/// A directory that is asked about logins: `martlet_ldap_…`, or mosquitto-go-auth's back end `ldap`.
public struct LDAPConfiguration: Sendable, Equatable {
    /// `martlet_ldap_url`; nil without a directory.
    public var url: String?
    /// `martlet_ldap_starttls`.
    public var startsTLS = false
    /// `martlet_ldap_cafile`, `martlet_ldap_certfile` and `martlet_ldap_keyfile`.
    public var authoritiesFile: String?
    public var certificateFile: String?
    public var keyFile: String?
    /// `martlet_ldap_bind_dn` and `martlet_ldap_bind_password`: as whom the broker searches.
    public var brokerEntry: String?
    public var brokerPassword: String?
    /// `martlet_ldap_user_dn`: what users are below, or with `%u` a user's entry.
    public var userEntry: String?
    /// `martlet_ldap_user_filter`.
    public var userFilter = "(uid=%u)"
    /// `martlet_ldap_compare_attribute`.
    public var comparedAttribute: String?
    /// `martlet_ldap_superuser_filter`.
    public var superuserFilter: String?
    /// `martlet_ldap_group_dn`.
    public var groupEntry: String?
    /// `martlet_ldap_group_filter`.
    public var groupFilter = "(member=%d)"
    /// `martlet_ldap_role_attribute`: names a role of dynamic security.
    public var roleAttribute: String?
    /// `martlet_ldap_topic_attribute`: topic filters.
    public var topicAttribute: String?
    /// `martlet_ldap_access_attribute`: the sum of 1, 2 and 4.
    public var accessAttribute: String?
    /// `martlet_ldap_timeout`.
    public var timeoutSeconds = 5

    public init() {}

    /// Whether nobody on the way can read what is said: it is encrypted, or does not leave the machine.
    var isProtected: Bool {
        guard let url = url?.lowercased(), url.hasPrefix("ldap://"), !startsTLS else { return true }
        return ["127.", "localhost", "[::1]"].contains { url.dropFirst("ldap://".utf8.count).hasPrefix($0) }
    }
}
